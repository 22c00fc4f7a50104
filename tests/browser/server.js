// Starts the real program on the demo's media and stops it again.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';

const repository = new URL('../../', import.meta.url);
const inRepository = (path) => fileURLToPath(new URL(path, repository));
const START_LIMIT_MS = 20_000;

/** Runs `penstock serve` on a free port. Resolves to its address and a way to stop it, which resolves to its exit code. */
export async function serveDemo() {
  const program = process.env.PENSTOCK_BIN ?? inRepository('target/debug/penstock');
  const child = spawn(program, ['serve', '--root', inRepository('demo/media'), '--listen', '127.0.0.1:0']);
  const ended = once(child, 'exit');
  const url = await new Promise((resolve, reject) => {
    let said = '';
    const read = (chunk) => {
      said += chunk;
      const found = said.match(/https:\/\/\S+\s/);
      if (found) resolve(found[0].trim());
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
  return { url, stop };
}
