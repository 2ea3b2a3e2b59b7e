// The owners of one client to whom a fair lock may be handed over, or was.

export class Grantees {
  /** Each with its lock: members of a MultiLock have one owner. */
  readonly #owners = new Set<string>();
  /** All that such owners ever began with: locks of several clients may be members of one MultiLock. */
  readonly #clientIds = new Set<string>();

  /** It is about to stand in line, and is expected until it is forgotten. */
  expect(lock: string, ownerId: string): void {
    this.#owners.add(key(lock, ownerId));
    this.#clientIds.add(clientIdOf(ownerId));
  }

  /** Nobody holds the lock as this owner, nor waits for it. */
  forget(lock: string, ownerId: string): void {
    this.#owners.delete(key(lock, ownerId));
  }

  /** Whether it is one of ours, and nobody is here any more who would take the lock as this owner. */
  isStray(lock: string, ownerId: string): boolean {
    return this.#clientIds.has(clientIdOf(ownerId)) && !this.#owners.has(key(lock, ownerId));
  }
}

function key(lock: string, ownerId: string): string {
  return `${ownerId} ${lock}`;
}

function clientIdOf(ownerId: string): string {
  return ownerId.slice(0, ownerId.lastIndexOf(':'));
}
