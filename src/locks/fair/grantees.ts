// The owners of one client to whom a fair lock may be handed over, or was.

/** Who waits as such an owner. */
export interface Grantee {
  /** The lock was handed over to this owner while its place had this nonce, with such a token if it is a fenced one. */
  granted(nonce: number, token?: bigint): void;
}

export class Grantees {
  /**
   * By owner and lock, since the members of a MultiLock have one owner; undefined: this owner has the lock, and takes no grant any more.
   */
  readonly #owners = new Map<string, Grantee | undefined>();
  /** The client ids of all such owners so far: a member of a MultiLock has an owner of the client that made the MultiLock. */
  readonly #clientIds = new Set<string>();

  /** An owner is about to stand in line, and is expected until it is forgotten. */
  expect(lock: string, ownerId: string, grantee: Grantee): void {
    this.#owners.set(key(lock, ownerId), grantee);
    this.#clientIds.add(clientIdOf(ownerId));
  }

  /** An owner has the lock: a grant that comes now is a copy, or came late. */
  granted(lock: string, ownerId: string): void {
    const owner = key(lock, ownerId);
    if (this.#owners.has(owner)) this.#owners.set(owner, undefined);
  }

  /** Nobody holds the lock as this owner, nor waits for it. */
  forget(lock: string, ownerId: string): void {
    this.#owners.delete(key(lock, ownerId));
  }

  /** Who waits for the lock as this owner, whether or not it stands in a line here already. */
  waitingAs(lock: string, ownerId: string): Grantee | undefined {
    return this.#owners.get(key(lock, ownerId));
  }

  /** Whether an owner is one of ours, and nobody is here any more who would take the lock as this owner. */
  isStray(lock: string, ownerId: string): boolean {
    return !this.#owners.has(key(lock, ownerId)) && this.#clientIds.has(clientIdOf(ownerId));
  }
}

function key(lock: string, ownerId: string): string {
  return `${ownerId} ${lock}`;
}

function clientIdOf(ownerId: string): string {
  return ownerId.slice(0, ownerId.lastIndexOf(':'));
}
