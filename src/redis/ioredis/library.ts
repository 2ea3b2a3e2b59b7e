// The ioredis that is installed beside holdfast. It is imported as a whole: of a name that an old one does not export, the module loader
// would say only that it was not found.

import * as library from 'ioredis';
import { createRequire } from 'node:module';

// Its types say that it is there.
if ((library.Redis as unknown) === undefined) {
  throw new Error(
    `holdfast needs ioredis 5.11 or newer, or 6, and finds ${found()}: npm install ioredis@6`,
  );
}

export { library };

function found(): string {
  try {
    const require = createRequire(import.meta.url);
    const path = require.resolve('ioredis/package.json');
    return `${(require(path) as { version: string }).version} (${path})`;
  } catch {
    return 'an older one'; // a bundle need not be where its packages are
  }
}
