// The origin of http-cache-tests. Its own program listens on every address and on a given port; this one only on loopback.
import { once } from 'node:events';
import { createServer } from 'node:http';
import handleConfig from 'http-cache-tests/test-engine/server/handle-config.mjs';
import handleState from 'http-cache-tests/test-engine/server/handle-state.mjs';
import handleTest from 'http-cache-tests/test-engine/server/handle-test.mjs';
import { stash } from 'http-cache-tests/test-engine/server/utils.mjs';

const HANDLERS = { config: handleConfig, state: handleState, test: handleTest };

/** Listens on a free port. Resolves to its URL, and a way to stop it. */
export async function startOrigin() {
  const server = createServer((request, response) => {
    const [, kind, ...rest] = new URL(request.url, 'http://origin.invalid').pathname.split('/');
    // Through a site that forwards no fields, requests have no numbers. None of them is sent while another one is open.
    request.headers['req-num'] ??= String((stash.get(rest[0])?.length ?? 0) + 1);
    if (HANDLERS[kind]) HANDLERS[kind](rest, request, response);
    else response.writeHead(404).end();
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const stop = () => {
    server.close();
    server.closeAllConnections();
  };
  return { url: `http://127.0.0.1:${server.address().port}`, stop };
}
