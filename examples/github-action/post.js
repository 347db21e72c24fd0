// Gives the lease back, or leaves the queue: after success, failure, a time-out, and when the
// job was cancelled. It never fails the job. If it cannot reach the proxy, the lease ends
// with its TTL.
'use strict';
const { existsSync, rmSync } = require('fs');
const { say, handleIn, leasectl } = require('./lease.js');

async function post() {
  const directory = process.env.STATE_directory;
  if (!directory || !existsSync(directory)) return; // main.js did not begin, or this ran before
  const released = await leasectl(directory, 'release', '--handle', handleIn(directory));
  if (released.code !== 0) throw new Error(`leasectl: ${released.code}`);
  rmSync(directory, { recursive: true });
}

post().catch((err) => say('warning', `The lease was not given back (${err.message}): it ends with its TTL.`));
