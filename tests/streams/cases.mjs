// Which cases of the conformance suite apply to ctx, and why the others do not. A case that is in no group fails the
// run, so that a new version of the suite is looked at.

const WRITES = 'writing: ctx has the read side only, and answers 405';
const TTL = 'time to live of a stream: a session does not expire';
const CLOSING = 'closing a stream is a write; the stream of a session closes when the session is deleted (tests of ctx itself)';
const FORKS = 'forks of streams are created by PUT; ctx forks sessions, by POST …/fork';
const SUBSCRIPTIONS = 'subscriptions are not part of reading a stream';
const JSON_ONLY = 'another content type: the stream of a session is always application/json';
const FRAMING = 'the adapter writes these bytes, not ctx: an event of ctx has no line break';
const CORS = 'CORS: ctx refuses pages of other origins';

const all = () => () => null;
const none = (reason) => () => reason;
const only = (reason, ...titles) => (title) => (titles.includes(title) ? null : reason);
const except = (reasons) => (title) => Object.entries(reasons).find(([, titles]) => titles.includes(title))?.[0] ?? null;

/** Group → a function from the title of a case to the reason why it does not apply; null where it does. */
const GROUPS = {
  'Basic Stream Operations': none(WRITES),
  'Append Operations': none(WRITES),
  'Read Operations': all(),
  'Long-Poll Operations': all(),
  'HTTP Protocol': only(
    WRITES,
    'should return correct headers on GET',
    'should return empty body with up-to-date for empty stream',
    'should read from offset',
  ),
  'Browser Security Headers': except({
    [WRITES]: [
      'should include X-Content-Type-Options: nosniff on PUT responses',
      'should include X-Content-Type-Options: nosniff on POST responses',
    ],
  }),
  'TTL and Expiry Validation': none(TTL),
  'Case-Insensitivity': none(WRITES),
  'Content-Type Validation': none(JSON_ONLY),
  'HEAD Metadata': all(),
  'Offset Validation and Resumability': all(),
  'Protocol Edge Cases': only(
    WRITES,
    'should preserve data immutability by position',
    'should generate unique, monotonically increasing offsets',
    'should reject empty offset parameter',
    'should reject multiple offset parameters',
    'should ignore unknown query parameters',
  ),
  'Long-Poll Edge Cases': all(),
  'TTL and Expiry Edge Cases': none(TTL),
  'HEAD Metadata Edge Cases': none(TTL),
  'TTL Expiration Behavior': none(TTL),
  'Caching and ETag': except({ [CORS]: ['should allow If-None-Match in CORS preflight responses'] }),
  'Chunking and Large Payloads': all(),
  'Read-Your-Writes Consistency': all(),
  'SSE Mode': except({
    [JSON_ONLY]: [
      'base64 SSE catch-up pairs every data event with a control event',
      'should auto-detect binary streams and return base64 encoded data in SSE mode',
      'should include Stream-SSE-Data-Encoding header for binary streams',
      'should NOT include Stream-SSE-Data-Encoding header for text/plain streams',
      'should base64 encode data events only, control events remain JSON',
      'should handle empty binary payload with auto-detected base64 encoding',
      'should handle large binary payload with auto-detected base64 encoding',
      'should handle binary data with special bytes using auto-detected base64 encoding',
      'should auto-detect base64 encoding for application/x-protobuf streams',
      'should auto-detect base64 encoding for image/png streams',
      'should handle offset=now with auto-detected base64 encoding for binary streams',
    ],
    [FRAMING]: [
      'should handle newlines in text/plain payloads',
      'should prevent CRLF injection in payloads - embedded event boundaries become literal data',
      'should prevent CRLF injection - LF-only attack vectors',
      'should prevent CRLF injection - carriage return only attack vectors',
      'should handle JSON payloads with embedded newlines safely',
    ],
  }),
  'JSON Mode': only(
    WRITES,
    'should wrap single JSON value in array',
    'should concatenate multiple appends into single array',
    'should work with client json() iterator',
  ),
  'Byte-Exactness Property': all(),
  'Operation Sequence Properties': all(),
  'Immutability Properties': all(),
  'Offset Validation Properties': all(),
  'Sequence Ordering Properties': none(WRITES),
  'Concurrent Writer Stress Tests': only(WRITES, 'mixed readers and writers - readers see consistent state'),
  'State Hash Verification': all(),
  'Idempotent Producer Operations': none(WRITES),
  'Create with Stream-Closed': none(CLOSING),
  'Close Operations': none(CLOSING),
  'HEAD with Stream Closure': only(
    CLOSING,
    'head-open-stream-no-closed-header: HEAD on open stream does NOT have Stream-Closed header',
  ),
  'Read Closed Streams (Catch-up)': none(CLOSING),
  'Long-poll with Stream Closure': none(CLOSING),
  'SSE with Stream Closure': none(CLOSING),
  'Idempotent Producers with Stream Closure': none(CLOSING),
  'Edge Cases': none(CLOSING),
  'Fork - Creation': none(FORKS),
  'Fork - Reading': none(FORKS),
  'Fork - Appending': none(FORKS),
  'Fork - Recursive': none(FORKS),
  'Fork - Live Modes': none(FORKS),
  'Fork - Deletion and Lifecycle': none(FORKS),
  'Fork - TTL and Expiry': none(FORKS),
  'Fork - JSON Mode': none(FORKS),
  'Fork - Edge Cases': none(FORKS),
  'Reserved subscription APIs': none(SUBSCRIPTIONS),
};

/** Why a case does not apply; null where it does, undefined where the suite has a group that is not listed. */
export function reasonAgainst(group, title) {
  return GROUPS[group] && GROUPS[group](title);
}
