// Starts a Redis server and waits to be killed.
import { onMessage, tell } from '../child-messages.js';
import { startRedis } from '../redis-server.js';

onMessage(() => undefined);
const { url } = await startRedis();
tell('started', { url });
