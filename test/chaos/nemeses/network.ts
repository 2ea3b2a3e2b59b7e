// What happens between a client and its servers: nothing passes, or late, or only one way.
import type { Swallowed } from '../../support/proxy-link.js';
import type { TcpProxy } from '../../support/tcp-proxy.js';
import type { PlannedFault } from '../plan.js';
import type { Stage } from '../stage/stage.js';
import type { Nemesis } from './nemesis.js';

export const NETWORK_NEMESES: readonly Nemesis[] = [
  network('cut connections', 3, [0, 0], (link) => {
    link.cut();
    return undefined;
  }),
  network('half-close connections', 2, [0, 0], (link) => {
    link.halfOpen();
    return undefined;
  }),
  swallowing('swallow both directions', 'both'),
  swallowing('swallow commands', 'upstream'),
  swallowing('swallow replies', 'downstream'),
  swallowing('starve the subscriber', 'both', 'subscribers'),
  network('delay everything', 3, [0.2, 3], (link, { amount }) => {
    link.delay({ upstreamMs: 1 + 150 * amount, downstreamMs: 1 + 150 * (1 - amount) });
    return () => {
      link.delay();
    };
  }),
  network('refuse connections', 2, [0.1, 1.5], (link) => {
    link.refuse();
    link.cut();
    return () => link.accept();
  }),
];

/** What was swallowed comes late, or never; then the connection ends, since a stream has no gaps. */
function swallowing(name: string, what: Swallowed, links?: 'subscribers'): Nemesis {
  return network(name, 2, [0.1, 2.5], (link, { amount }) => {
    link.blackhole(what, links);
    return () => {
      link.heal(amount < 0.5 ? 'forward' : 'drop');
      if (amount >= 0.5) link.cut();
    };
  });
}

/** A fault of all links of one client; or, with several masters, of one or two of them. */
function network(
  name: string,
  weight: number,
  leases: readonly [number, number],
  begin: (link: TcpProxy, fault: PlannedFault) => (() => unknown) | undefined,
): Nemesis {
  return {
    name,
    weight,
    leases,
    async act(stage, fault, lasting) {
      const client = fault.target % stage.clientCount;
      const free = stage.faults.take(`links of client ${client}`);
      if (!free) return;
      const noted = stage.faults.begin(name, { clients: [client] });
      const heals = touchedLinks(stage, client, fault).map((link) => begin(link, fault));
      await lasting();
      for (const heal of heals) await heal?.();
      noted.end();
      free();
    },
  };
}

function touchedLinks(stage: Stage, client: number, { target, amount }: PlannedFault): TcpProxy[] {
  const links = stage.links(client);
  if (stage.plan.topology !== 'masters') return [...links];
  const first = target % links.length;
  const count = amount < 0.4 ? 1 : amount < 0.8 ? 2 : links.length;
  return Array.from({ length: count }, (_, i) => links[(first + i) % links.length]!);
}
