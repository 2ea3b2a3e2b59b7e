// What the scripts of lua/ need of Lua 5.1 and of Redis' scripting, as JavaScript: scripts.memory.generated.ts is written for it.

/** A value of Lua; `undefined` is its nil. Functions are none: the scripts only call them. */
export type Value = undefined | boolean | number | string | Table;

/** A table of Lua: a sequence, whose first item has the index 1, and fields. */
export class Table {
  readonly items: Value[];
  readonly fields = new Map<Value, Value>();

  constructor(items: Value[] = []) {
    this.items = items;
  }
}

/** A reply of RESP 2: null is nil, {ok} a status, {err} an error with its code in front ("WRONGTYPE Operation …"). */
export type Reply = string | number | null | readonly Reply[] | { readonly ok: string } | Failure;

export interface Failure {
  readonly err: string;
}

/** A script of lua/. */
export type MemoryScript = (KEYS: Table, ARGV: Table, redis: RedisApi) => Value;

/** What a script knows as `redis`. */
export interface RedisApi {
  /** Throws a {@link LuaError} where the command answers an error. */
  call(...command: Value[]): Value;
  pcall(...command: Value[]): Value;
  error_reply(text: Value): Table;
}

/** An error that a script raises, or a command that it calls. */
export class LuaError extends Error {}

/** Runs a script as EVAL does, on the commands of a server: `execute` answers errors, it throws none. */
export function evaluate(
  script: MemoryScript,
  keys: readonly string[],
  args: readonly string[],
  execute: (command: readonly string[]) => Reply,
): Reply {
  throw new Error(`not written: ${String([script, keys, args, execute])}`);
}

/** What a client gets of what a script returns. */
export function toReply(value: Value): Reply {
  throw new Error(`not written: ${String(value)}`);
}
