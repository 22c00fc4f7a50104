// A resolver for one hidden name: DNS over HTTPS (RFC 8484) with the records that a browser needs for ECH (RFC 9848).
import { once } from 'node:events';
import { createServer } from 'node:https';
import { setTimeout } from 'node:timers/promises';

const TYPES = { A: 1, HTTPS: 65 };
const TTL_S = 300;
const RECORD_DELAY_MS = 200;
const NAME_ERROR = 3;

/** The question in a query: the name, and the type by its number. */
function question(query) {
  const labels = [];
  let at = 12;
  for (; query[at] !== 0; at += 1 + query[at]) labels.push(query.toString('latin1', at + 1, at + 1 + query[at]));
  return { name: labels.join('.').toLowerCase(), type: query.readUInt16BE(at + 1), end: at + 5 };
}

/** A parameter of an HTTPS record (RFC 9460 §2.2). */
function parameter(key, value) {
  const head = Buffer.alloc(4);
  head.writeUInt16BE(key, 0);
  head.writeUInt16BE(value.length, 2);
  return Buffer.concat([head, value]);
}

/** A name in the wire format. */
const encodeName = (name) => Buffer.from([...name.split('.'), '']
  .flatMap((label) => [label.length, ...Buffer.from(label)]));

/**
 * `HTTPS 1 . alpn=h2,http/1.1 ech=...`, as `penstock ech new` prints it, in the wire format. The record of a port other than
 * 443 stands under a name of its own, so it has to say which host it is about instead of `.` (RFC 9460 §2.5.2).
 */
function httpsRecord(text, host) {
  const [, alpn, ech] = text.match(/^HTTPS 1 \. alpn=(\S+) ech=(\S+)$/);
  const protocols = alpn.split(',').map((name) => Buffer.from([name.length, ...Buffer.from(name)]));
  return Buffer.concat([
    Buffer.from([0, 1]), // priority
    encodeName(host),
    parameter(1, Buffer.concat(protocols)),
    parameter(5, Buffer.from(ech, 'base64')),
  ]);
}

function answer(query, records) {
  const { name, type, end } = question(query);
  const data = records(name)?.[type];
  const known = records(name) !== undefined;
  const head = Buffer.alloc(12);
  query.copy(head, 0, 0, 2);
  head.writeUInt16BE(0x8180 | (known ? 0 : NAME_ERROR), 2); // a response, recursion desired and available
  head.writeUInt16BE(1, 4);
  head.writeUInt16BE(data ? 1 : 0, 6);
  if (!data) return Buffer.concat([head, query.subarray(12, end)]);
  const record = Buffer.alloc(12);
  record.writeUInt16BE(0xc00c, 0); // the name in the question
  record.writeUInt16BE(type, 2);
  record.writeUInt16BE(1, 4);
  record.writeUInt32BE(TTL_S, 6);
  record.writeUInt16BE(data.length, 10);
  return Buffer.concat([head, query.subarray(12, end), record, data]);
}

/**
 * Answers for `host` on `port` with 127.0.0.1 and the HTTPS record that `text` says; every other name is unknown.
 * Resolves to the URL of the service, the names it was asked for, and a way to stop it.
 */
export async function resolveName({ host, port, text, certificate }) {
  const asked = new Set();
  const address = { [TYPES.A]: Buffer.from([127, 0, 0, 1]) };
  const service = { [TYPES.HTTPS]: httpsRecord(text, host) };
  // Elsewhere than on port 443 the HTTPS record has a name of its own (RFC 9460 §9.1).
  const names = new Map([[host, address], [`_${port}._https.${host}`, service]]);
  const server = createServer(certificate, async (request, response) => {
    const pieces = [];
    for await (const piece of request) pieces.push(piece);
    const query = Buffer.concat(pieces);
    const { name, type } = question(query);
    asked.add(name);
    // Later than the addresses, as on a busy machine.
    if (type === TYPES.HTTPS) await setTimeout(RECORD_DELAY_MS);
    response.writeHead(200, { 'Content-Type': 'application/dns-message' });
    response.end(answer(query, (one) => names.get(one)));
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const stop = async () => {
    server.close();
    server.closeAllConnections();
  };
  return { url: `https://127.0.0.1:${server.address().port}/dns-query`, asked, stop };
}
