// Starts the real program and stops it again.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';

const repository = new URL('../../', import.meta.url);
const inRepository = (path) => fileURLToPath(new URL(path, repository));
const START_LIMIT_MS = 20_000;

/** The program under test. */
export const program = process.env.PENSTOCK_BIN ?? inRepository('target/debug/penstock');

/** Serves the demo's media on a free port. */
export const serveDemo = () => serve(['--root', inRepository('demo/media'), '--listen', '127.0.0.1:0'], {
  url: /https:\/\/\S+(?=\s)/,
});

/**
 * Runs `penstock serve` with these arguments. Resolves, once the program has said everything that is looked for, to what
 * was found by name, a way to send it a signal, and one to stop it, which resolves to its exit code.
 */
export async function serve(args, wanted) {
  const child = spawn(program, ['serve', ...args]);
  const ended = once(child, 'exit');
  const found = await new Promise((resolve, reject) => {
    let said = '';
    const read = (chunk) => {
      said += chunk;
      const matches = Object.entries(wanted).map(([name, pattern]) => [name, said.match(pattern)?.[0]]);
      if (matches.every(([, match]) => match)) resolve(Object.fromEntries(matches));
    };
    child.stdout.on('data', read);
    child.stderr.on('data', read);
    child.on('error', reject);
    child.on('exit', (code) => reject(new Error(`${program} ended with ${code} and said: ${said}`)));
    setTimeout(() => reject(new Error(`${program} named no address; it said: ${said}`)), START_LIMIT_MS).unref();
  }).catch((fault) => {
    child.kill('SIGKILL');
    throw fault;
  });
  const stop = async () => {
    child.kill('SIGTERM');
    const [code] = await ended;
    return code;
  };
  return { ...found, stop, tell: (signal) => child.kill(signal) };
}
