// The rooms of src/ and who may import whom, types included; and, for demo/, benchmarks/ and test/, too, that no files import each other in a
// circle: `npm run rooms`. docs/architecture.md draws the rooms.

/** From the top: a room imports those below it, never one above it. Rooms of one floor know nothing of each other. */
const floors = [
  ['cli', 'adapters'],
  ['index', 'testing', 'telemetry', 'ui'],
  ['holdfast'],
  ['options'],
  ['locks'],
  ['queue'],
  ['core'],
  ['scopes', 'waiting'],
  ['redis'],
  ['api'],
  ['runtime'],
];

/** On what other kinds a kind of lock in locks/ is built. */
const kinds = {
  plain: ['gather', 'fenced', 'keeper'],
  gather: [],
  keeper: [],
  fair: ['plain', 'gather', 'fenced'],
  fenced: ['gather'],
  weighted: [],
  semaphore: ['weighted'],
  'read-write': ['weighted'],
  redlock: ['plain', 'fenced'],
  multi: [],
};

/** What all kinds may use. */
const ofAllKinds = ['base-lock', 'single-lock'];

const room = (name) => `^src/${name}(/|\\.ts$)`;
const ofKind = (name) => `^src/locks/${name}(/|\\.ts$)`;

const oneWay = floors.flatMap((floor, level) =>
  floor.map((name) => {
    const besides = floor.filter((other) => other !== name);
    const forbidden = [...floors.slice(0, level).flat(), ...besides];
    return {
      name: `${name}-imports-downwards`,
      comment: `${name} may import what stands below it: ${floors
        .slice(level + 1)
        .flat()
        .join(', ')}`,
      severity: 'error',
      from: { path: room(name) },
      to: { path: forbidden.map(room) },
    };
  }),
);

const ofKinds = Object.entries(kinds).map(([kind, base]) => ({
  name: `${kind}-is-complete-in-itself`,
  comment: `locks/${kind} imports no other kind of lock${base.length > 0 ? ` but ${base.join(', ')}` : ''}`,
  severity: 'error',
  from: { path: ofKind(kind) },
  to: { path: '^src/locks/', pathNot: [kind, ...base, ...ofAllKinds].map(ofKind) },
}));

export default {
  forbidden: [
    {
      name: 'no-cycle',
      comment:
        'files that import each other in a circle can only be understood, and changed, together',
      severity: 'error',
      from: {},
      to: { circular: true },
    },
    {
      name: 'known-rooms',
      comment: 'each file stands in a room that has its place in the order',
      severity: 'error',
      from: { path: '^src/', pathNot: floors.flat().map(room) },
      to: {},
    },
    {
      name: 'no-unresolvable',
      comment: 'an import that cannot be resolved is not checked either',
      severity: 'error',
      // The tutorial imports the package by its name, as its reader does: that is there after a build.
      from: { pathNot: '^test/tutorial/' },
      to: { couldNotResolve: true },
    },
    {
      name: 'libraries-behind-the-port',
      comment:
        'what is to be known of a client library stands in a folder of its own in redis/; all others know the port, redis/port.ts',
      severity: 'error',
      from: { path: '^src/', pathNot: '^src/redis/[^/]+/' },
      to: { path: '(^|/)node_modules/(ioredis|redis|@redis)/' },
    },
    {
      name: 'library-chosen-once',
      comment: 'which libraries there are is known to redis/installed.ts, and to nobody else',
      severity: 'error',
      from: { path: '^src/', pathNot: '^src/redis/([^/]+/|installed\\.ts$)' },
      to: { path: '^src/redis/[^/]+/' },
    },
    {
      name: 'testing-knows-no-locks',
      comment:
        'a server in memory is one more library behind the port: it imports no more than another would',
      severity: 'error',
      from: { path: '^src/testing/' },
      to: { path: '^src/', pathNot: '^src/(testing|redis|api|runtime)/' },
    },
    {
      name: 'adapters-import-the-index',
      comment: 'an adapter knows what its users know, how options are read, and no other adapter',
      severity: 'error',
      from: { path: '^src/adapters/([^/.]+)' },
      to: { path: '^src/', pathNot: '^src/(index\\.ts$|api/options\\.ts$|adapters/$1)' },
    },
    ...oneWay.filter(({ to }) => to.path.length > 0),
    ...ofKinds,
  ],
  options: {
    tsPreCompilationDeps: true,
    tsConfig: { fileName: 'tsconfig.build.json' },
    doNotFollow: { path: 'node_modules' },
    enhancedResolveOptions: { exportsFields: ['exports'], conditionNames: ['import', 'types'] },
  },
};
