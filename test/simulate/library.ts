// The library that the simulator tries: the present one, or a mutant of it.
import { pathToFileURL } from 'node:url';

const index = process.env['HOLDFAST_CHAOS_LIBRARY'];
const root =
  index === undefined ? new URL('../../src/', import.meta.url) : new URL('.', pathToFileURL(index));

/** A module of that library, by its path in src/. */
export async function loaded<Module>(path: string): Promise<Module> {
  return (await import(new URL(`${path}.js`, root).href)) as Module;
}
