// Serves the live page on this machine only, for `npx holdfast ui`.

import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { Holdfast } from '../holdfast.js';
import { ui } from './ui.js';

export interface Served {
  readonly url: string;
  close(): Promise<void>;
}

/** @throws Error the port is in use */
export async function serve(
  holdfast: Holdfast,
  options: { readonly port: number; readonly prefix: string; readonly mayForce: boolean },
): Promise<Served> {
  const { prefix, mayForce } = options;
  const handler = ui(holdfast, { basePath: '/', prefix, allowForce: () => mayForce });
  let hosts: string[] = [];
  const server = createServer((request, response) => {
    // A page of another site, whose name leads to 127.0.0.1 by now, must not read this.
    if (hosts.includes(request.headers.host ?? '')) handler(request, response);
    else response.writeHead(403).end(`the page is at http://${hosts[0] ?? ''}/`);
  });
  server.listen(options.port, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  // A browser leaves out the port of http.
  hosts = ['127.0.0.1', 'localhost'].map((host) =>
    port === 80 ? host : `${host}:${String(port)}`,
  );
  return {
    url: `http://127.0.0.1:${String(port)}/`,
    close: async () => {
      handler.close();
      server.close();
      server.closeAllConnections();
      await once(server, 'close');
    },
  };
}
