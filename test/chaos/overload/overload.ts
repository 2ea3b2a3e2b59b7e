// Far too much to do: figures, and nothing lost or left.
import { startRedisProcess } from '../../support/redis-server.js';
import { assertNothingLeft } from './load.js';
import { LOADS } from './loads.js';

/** Returns whether all went well; `wanted`: which loads, none for all. */
export async function overload(wanted: readonly string[]): Promise<boolean> {
  const unknown = wanted.find((name) => !LOADS.some((load) => load.name === name));
  if (unknown !== undefined)
    throw new Error(`there is no load "${unknown}": ${LOADS.map(({ name }) => name).join(', ')}`);
  let isSound = true;
  for (const load of LOADS) {
    if (wanted.length > 0 && !wanted.includes(load.name)) continue;
    console.log(`${load.name}: ${load.what}`);
    const server = await startRedisProcess({ args: ['--maxclients', '10000'] });
    try {
      const figures = await load.run(server);
      await assertNothingLeft(server);
      console.log(
        `  ${Object.entries(figures)
          .map(([name, value]) => `${name} ${value}`)
          .join(', ')}; nothing lost or left`,
      );
    } catch (error) {
      isSound = false;
      console.log(`  FAILED: ${(error as Error).message}`);
    } finally {
      await server[Symbol.asyncDispose]();
    }
  }
  return isSound;
}
