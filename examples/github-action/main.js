// Takes the lease. post.js is told of the directory before the lease is asked for: it cleans
// up after a job that is cancelled while it waits, too.
'use strict';
const { mkdtempSync, statSync, writeFileSync } = require('fs');
const os = require('os');
const path = require('path');
const { input, put, say, handleIn, tokenIn, leasectl } = require('./lease.js');

async function main() {
  // In a container this is root, and RUNNER_TEMP the runner's, who could put another directory in the place of ours.
  const temp = statSync(process.env.RUNNER_TEMP).uid === process.getuid() ? process.env.RUNNER_TEMP : os.tmpdir();
  const directory = mkdtempSync(path.join(temp, 'lease-')); // mode 0700
  put('GITHUB_STATE', 'directory', directory);
  if (input('token')) writeFileSync(tokenIn(directory), `${input('token')}\n`, { mode: 0o600 });

  const handle = handleIn(directory);
  const args = ['acquire', '--type', input('type'), '--handle', handle];
  for (const name of ['count', 'wait-timeout', 'ttl']) {
    if (input(name)) args.push(`--${name}`, input(name));
  }
  if (input('optional') === 'true') args.push('--optional');
  const acquired = await leasectl(directory, ...args);
  if (acquired.code !== 0) {
    throw new Error(`no lease of type ${input('type')} (leasectl: ${acquired.code})`);
  }
  const names = (await leasectl(directory, 'cat', '--handle', handle, '--format', 'csv')).printed.trim();
  if (!names) say('notice', `The job runs without a lease of type ${input('type')}.`);
  put('GITHUB_OUTPUT', 'names', names);
  put('GITHUB_OUTPUT', 'handle', handle);
}

main().catch((err) => {
  say('error', err.message);
  process.exitCode = 1;
});
