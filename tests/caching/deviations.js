// Tests of http-cache-tests that this server does not pass on purpose, with the reason. A test that passes is taken off.
const AGE = 'the first member of Age counts, and an invalid value is ignored (RFC 9111 section 5.1)';
const UNAVAILABLE = 'the 502 page is not from the cache, but it has no request count of the origin';
const SET_COOKIE = 'a cache that many users share stores no response with Set-Cookie';
const KEY = 'the site lists Authorization in cache.vary, which makes it a part of the key';
const PARTIAL = 'the origin labels 5 bytes as the 6 bytes 4-9, or sends bytes 0-4 for the last 5: a malformed response';
const UNNAMED = 'it may be about a forwarded field that Vary does not name, so it is not stored';

export const DEVIATIONS = {
  'age-parse-dup-0': AGE,
  'age-parse-dup-0-twoline': AGE,
  'age-parse-dup-old': AGE,
  'age-parse-float': AGE,
  'age-parse-negative': AGE,
  'age-parse-nonnumeric': AGE,
  'age-parse-numeric-parameter': AGE,
  'age-parse-parameter': AGE,
  'age-parse-prefix-twoline': AGE,
  'stale-close-must-revalidate': UNAVAILABLE,
  'stale-close-proxy-revalidate': UNAVAILABLE,
  'stale-close-no-cache': UNAVAILABLE,
  'stale-close-s-maxage=2': UNAVAILABLE,
  'headers-store-Set-Cookie': SET_COOKIE,
  '304-etag-update-response-Set-Cookie': SET_COOKIE,
  'other-set-cookie': SET_COOKIE,
  'other-authorization-public': KEY,
  'other-authorization-must-revalidate': KEY,
  'other-authorization-smaxage': KEY,
  'partial-store-partial-reuse-partial': PARTIAL,
  'partial-store-partial-reuse-partial-byterange': PARTIAL,
  'partial-store-partial-reuse-partial-absent': PARTIAL,
  'partial-store-partial-reuse-partial-suffix': PARTIAL,
  'partial-store-partial-complete': PARTIAL,
  'status-302-fresh': UNNAMED,
  'status-303-fresh': UNNAMED,
  'status-307-fresh': UNNAMED,
  'status-400-fresh': UNNAMED,
  'status-499-fresh': UNNAMED,
  'status-500-fresh': UNNAMED,
  'status-502-fresh': UNNAMED,
  'status-503-fresh': UNNAMED,
  'status-504-fresh': UNNAMED,
  'status-599-fresh': UNNAMED,
  '304-etag-update-response-ETag': 'a 304 with another ETag is about another version, so the origin is asked again',
  'headers-store-Transfer-Encoding': 'an unknown transfer coding of a response is malformed (RFC 9112 section 6.1)',
  'conditional-lm-fresh-no-lm': 'the Date of the stored response is later than If-Modified-Since (RFC 9111 section 4.3.2)',
  'method-POST': 'responses to POST are not stored',
  'vary-normalise-lang-order': 'origins read the order of languages as a preference',
  'vary-normalise-lang-select': 'which language suits is the choice of the origin',
  'vary-normalise-lang-case': 'the value goes to the origin, which may compare tags with their case',
  'heuristic-599-cached': 'the default lifetime is for statuses that RFC 9110 section 15.1 lists, with or without `public`',
};
