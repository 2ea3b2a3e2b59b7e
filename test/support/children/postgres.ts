// A PostgreSQL server in a process: PGlite, whose timers and memory are not those of the test.
//
// At its start     ->  ready {url}
// sql {text}       ->  rows {rows}
// Whatever fails   ->  failed {name, message, code}
// It ends with the test, or when it is killed.
import { PGlite } from '@electric-sql/pglite';
import { PGLiteSocketServer } from '@electric-sql/pglite-socket';
import { onMessage, tell } from '../child-messages.js';

const db = await PGlite.create();
const server = new PGLiteSocketServer({ db, port: 0, host: '127.0.0.1', maxConnections: 20 });
await server.start();
onMessage(async ({ text }) => {
  tell('rows', { rows: (await db.query(String(text))).rows });
});
tell('ready', { url: `postgres://postgres@${server.getServerConn()}/postgres?sslmode=disable` });
