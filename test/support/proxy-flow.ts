// One direction of a proxied connection: passes bytes on in order, late, or not at all.
import type { Socket } from 'node:net';

export class ProxyFlow {
  delayMs = 0;
  readonly #target: Socket;
  #waiting: { bytes: Buffer; dueAt: number }[] = [];
  #held = false;
  #timer: NodeJS.Timeout | undefined;

  constructor(target: Socket) {
    this.#target = target;
  }

  send(bytes: Buffer): void {
    if (this.delayMs === 0 && !this.#held && this.#waiting.length === 0) this.#write(bytes);
    else {
      this.#waiting.push({ bytes, dueAt: performance.now() + this.delayMs });
      this.#pass();
    }
  }

  hold(): void {
    this.#held = true;
    clearTimeout(this.#timer);
  }

  letGo(buffered: 'forward' | 'drop'): void {
    this.#held = false;
    if (buffered === 'drop') this.#waiting = [];
    this.#pass();
  }

  end(): void {
    clearTimeout(this.#timer);
    this.#waiting = [];
  }

  #pass(): void {
    clearTimeout(this.#timer);
    if (this.#held) return;
    while (this.#waiting.length > 0 && this.#waiting[0]!.dueAt <= performance.now()) {
      this.#write(this.#waiting.shift()!.bytes);
    }
    const next = this.#waiting[0];
    if (!next) return;
    this.#timer = setTimeout(() => {
      this.#pass();
    }, next.dueAt - performance.now());
  }

  #write(bytes: Buffer): void {
    if (this.#target.writable) this.#target.write(bytes);
  }
}
