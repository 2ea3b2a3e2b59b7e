// The calls that end with one signal, and its one listener: Node.js warns of more than ten.

/** A call that an abort ends. */
interface Abortable {
  end(ending: 'aborted'): void;
}

const callsOf = new WeakMap<AbortSignal, Set<Abortable>>();

/** Has the signal end a call, until the function that this returns is called. */
export function endOnAbort(signal: AbortSignal, call: Abortable): () => void {
  const calls = callsOf.get(signal) ?? new Set<Abortable>();
  callsOf.set(signal, calls.add(call));
  signal.addEventListener('abort', endAll); // once in all, however many calls there are
  return () => {
    calls.delete(call);
    if (calls.size === 0) signal.removeEventListener('abort', endAll);
  };
}

function endAll({ target }: Event): void {
  for (const call of [...(callsOf.get(target as AbortSignal) ?? [])]) call.end('aborted');
}
