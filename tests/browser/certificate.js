// A certificate that a browser is told to trust by the hash of its key.
import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';

/** Writes cert.pem and key.pem for these names. `hash` is for --ignore-certificate-errors-spki-list. */
export function makeCertificate(directory, names) {
  const [key, cert] = [join(directory, 'key.pem'), join(directory, 'cert.pem')];
  execFileSync('openssl', ['req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes',
    '-keyout', key, '-out', cert, '-days', '2', '-subj', '/CN=penstock test',
    '-addext', `subjectAltName=${names}`], { stdio: 'pipe' });
  const pem = execFileSync('openssl', ['x509', '-in', cert, '-noout', '-pubkey']).toString();
  const spki = Buffer.from(pem.replace(/-----[^-]+-----|\s/g, ''), 'base64');
  return {
    key: readFileSync(key), cert: readFileSync(cert), hash: createHash('sha256').update(spki).digest('base64'),
  };
}
