// What main.js and post.js share: inputs, the runner's files and commands, and leasectl.
'use strict';
const { spawn } = require('child_process');
const { randomUUID } = require('crypto');
const { appendFileSync } = require('fs');
const path = require('path');

// input returns an input of action.yml: the runner passes it in a variable.
const input = (name) => (process.env[`INPUT_${name.toUpperCase()}`] ?? '').trim();

// put adds a value to a file of the runner, GITHUB_STATE or GITHUB_OUTPUT. The delimiter
// cannot be guessed, so that no value adds others.
function put(file, name, value) {
  const end = `end-${randomUUID()}`;
  appendFileSync(process.env[file], `${name}<<${end}\n${value}\n${end}\n`);
}

// say shows a message on the page of the run: an error, a warning or a notice.
function say(level, text) {
  const escaped = text.replace(/%/g, '%25').replace(/\r/g, '%0D').replace(/\n/g, '%0A');
  console.log(`::${level}::${escaped}`);
}

const handleIn = (directory) => path.join(directory, 'handle');
const tokenIn = (directory) => path.join(directory, 'token');

// leasectl runs a command with the proxy and token of the inputs. GitHub's runner gives the variables
// with which leasectl asks for a token to actions and to steps. It resolves to the exit
// code, or the signal's name, and what was printed on stdout.
//
// The runner cancels a job by INT, and later TERM, to this process alone: leasectl gets
// them too, and leaves the queue.
function leasectl(directory, ...args) {
  const env = { ...process.env };
  if (input('proxy')) env.LEASE_PROXY_SERVER_URL = input('proxy');
  if (input('token-from')) env.LEASECTL_TOKEN_FROM = input('token-from');
  if (input('token')) env.LEASECTL_TOKEN_FILE = tokenIn(directory);
  if (input('ca')) env.LEASECTL_CA = input('ca');
  return new Promise((resolve, reject) => {
    const child = spawn('leasectl', args, { env, stdio: ['ignore', 'pipe', 'inherit'] });
    let printed = '';
    child.stdout.setEncoding('utf8').on('data', (text) => { printed += text; });
    const stop = () => child.kill('SIGTERM');
    process.on('SIGINT', stop).on('SIGTERM', stop);
    child.on('error', () => reject(new Error('leasectl is not in PATH: install it in an earlier step')));
    child.on('close', (code, signal) => {
      process.off('SIGINT', stop).off('SIGTERM', stop);
      resolve({ code: code ?? signal, printed });
    });
  });
}

module.exports = { input, put, say, handleIn, tokenIn, leasectl };
