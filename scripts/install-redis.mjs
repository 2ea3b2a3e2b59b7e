// Installs Redis through the system's package manager, prints the commands that it runs, and leaves no service running.
import { spawnSync } from 'node:child_process';

/** Tries the package manager of the system; the caller checks whether there is a server afterwards. */
export function installRedis() {
  const manager = MANAGERS.find(({ program }) => succeeds(program, ['--version']));
  if (!manager) return;
  const asRoot = manager.needsRoot ? rootPrefix() : [];
  if (!asRoot) {
    console.log(
      `setup: ${manager.program} needs root, or sudo without a password, to install Redis`,
    );
    return;
  }
  const [program, ...args] = [...asRoot, 'sh', '-c', manager.script];
  console.log(
    `setup: no Redis found; running ${[...asRoot, 'sh'].join(' ')} -c '${manager.script}'`,
  );
  spawnSync(program, args, { stdio: ['ignore', 'inherit', 'inherit'] });
}

// Debian's packages start their service and enable it at boot. A policy-rc.d that answers 101 (invoke-rc.d's "forbidden") prevents the
// start; an existing one is not touched.
const APT_SCRIPT = `
  policy=/usr/sbin/policy-rc.d
  if [ ! -e $policy ]; then
    trap "rm -f $policy" EXIT
    trap "exit 1" INT TERM
    printf "#!/bin/sh\\nexit 101\\n" > $policy && chmod 755 $policy
  fi
  export DEBIAN_FRONTEND=noninteractive
  apt-get -qq update
  for server in redis-server valkey-server; do
    apt-get install -qq -y --no-install-recommends -o DPkg::Lock::Timeout=120 $server || continue
    ! command -v systemctl > /dev/null || systemctl disable $server
    break
  done
`;

const MANAGERS = [
  { program: 'apt-get', needsRoot: true, script: APT_SCRIPT },
  { program: 'apk', needsRoot: true, script: 'apk add redis || apk add valkey' },
  { program: 'dnf', needsRoot: true, script: 'dnf install -y valkey || dnf install -y redis' },
  { program: 'pacman', needsRoot: true, script: 'pacman -Sy --noconfirm valkey' },
  { program: 'zypper', needsRoot: true, script: 'zypper --non-interactive install redis' },
  { program: 'brew', needsRoot: false, script: 'brew install redis' },
];

/** The prefix of a command that needs root; undefined when root is not available. */
function rootPrefix() {
  if (process.getuid?.() === 0) return [];
  return succeeds('sudo', ['-n', 'true']) ? ['sudo', '-n'] : undefined;
}

function succeeds(program, args) {
  return spawnSync(program, args, { stdio: 'ignore' }).status === 0;
}
