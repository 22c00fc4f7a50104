// Tests of http-cache-tests that this server does not pass on purpose, with the reason. A test that passes is taken off.
const SET_COOKIE = 'a cache that many users share stores no response with Set-Cookie';
const KEY = 'the site lists Authorization in cache.vary, which makes it a part of the key';
const PARTIAL = 'the origin labels 5 bytes as the 6 bytes 4-9, or answers a request without Range with 206: malformed';

export const DEVIATIONS = {
  'headers-store-Set-Cookie': SET_COOKIE,
  'other-set-cookie': SET_COOKIE,
  'other-authorization-public': KEY,
  'other-authorization-must-revalidate': KEY,
  'other-authorization-smaxage': KEY,
  'partial-store-partial-reuse-partial': PARTIAL,
  'partial-store-partial-reuse-partial-byterange': PARTIAL,
  'partial-store-partial-reuse-partial-absent': PARTIAL,
  'partial-store-partial-reuse-partial-suffix': PARTIAL,
  'partial-store-partial-complete': PARTIAL,
  'headers-store-Transfer-Encoding': 'an unknown transfer coding of a response is malformed (RFC 9112 section 6.1)',
  'conditional-lm-fresh-no-lm': 'the Date of the stored response is later than If-Modified-Since (RFC 9111 section 4.3.2)',
  'method-POST': 'responses to POST are not stored',
  'vary-normalise-lang-order': 'origins read the order of languages as a preference',
  'vary-normalise-lang-select': 'which language suits is the choice of the origin',
  'heuristic-599-cached': 'the default lifetime is for statuses that RFC 9110 section 15.1 lists, with or without `public`',
};
