// Lets the public conformance suite write: ctx has only the read side of the protocol.
//
// PUT creates a session that holds its messages, and POST sends one message to it, which is one stored event. The
// adapter keeps the bytes of each append by the id of its message. A read goes to ctx; its status, its headers and the
// positions of its frames are passed on unchanged. Only the body is translated: each event of an append is replaced by the
// bytes of that append, and the two events of creating the session are left out.
import { createServer } from 'node:http';

/** Seconds that a long-poll waits; the suite's tests last at most five. */
const LONG_POLL_SECONDS = 1;
const PASSED = ['content-type', 'stream-next-offset', 'stream-up-to-date', 'stream-cursor', 'stream-closed', 'etag', 'cache-control',
  'x-content-type-options', 'cross-origin-resource-policy', 'allow', 'x-accel-buffering'];

export async function startAdapter(ctx) {
  const streams = new Map();
  const server = createServer((request, response) => {
    handle(ctx, streams, request, response).catch((error) => {
      if (response.headersSent) return response.destroy();
      response.writeHead(500).end(String(error.stack));
    });
  });
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
  const end = () => {
    server.closeAllConnections();
    return new Promise((resolve) => server.close(resolve));
  };
  return { url: `http://127.0.0.1:${server.address().port}`, end };
}

async function handle(ctx, streams, request, response) {
  const { pathname, search } = new URL(request.url, 'http://adapter');
  const stream = streams.get(pathname);
  const body = await bytesOf(request);
  if (request.method === 'PUT') return create(ctx, streams, pathname, request, response, body);
  if (request.method === 'POST' && stream) return append(ctx, stream, response, body);
  if (request.method === 'DELETE' && stream) {
    streams.delete(pathname);
    await ctx.api('DELETE', `/sessions/${stream.session}`);
    return response.writeHead(204).end();
  }
  return read(ctx, stream ?? { session: 'no-such-session' }, search, request, response);
}

async function create(ctx, streams, pathname, request, response, body) {
  const contentType = request.headers['content-type'] ?? 'application/octet-stream';
  let stream = streams.get(pathname);
  const status = stream ? 200 : 201;
  if (!stream) {
    const { id } = await ctx.api('POST', '/sessions', {});
    await ctx.api('PATCH', `/sessions/${id}`, { delivery: 'hold' });
    stream = { session: id, contentType, appends: new Map(), pending: Promise.resolve() };
    streams.set(pathname, stream);
    if (body.length > 0) await store(ctx, stream, body);
  }
  const headers = { 'content-type': contentType, 'stream-next-offset': await tail(ctx, stream) };
  response.writeHead(status, { ...headers, location: `http://${request.headers.host}${pathname}` }).end();
}

async function append(ctx, stream, response, body) {
  if (body.length === 0) return response.writeHead(400).end('empty body');
  const next = await store(ctx, stream, body);
  response.writeHead(204, { 'stream-next-offset': next }).end();
}

/** Sends one message for each append; appends to one stream are sent one after the other. */
function store(ctx, stream, body) {
  const parts = isJson(stream) ? elements(JSON.parse(body)) : [body];
  const stored = stream.pending.then(async () => {
    for (const part of parts) {
      const sent = await ctx.api('POST', `/sessions/${stream.session}/messages`, { text: 'append', queue_mode: 'queue' });
      stream.appends.set(sent.message_id, part);
    }
    return tail(ctx, stream);
  });
  stream.pending = stored.catch(() => {});
  return stored;
}

const elements = (value) => (Array.isArray(value) ? value : [value]).map((one) => Buffer.from(JSON.stringify(one)));
const isJson = (stream) => (stream.contentType ?? '').toLowerCase().startsWith('application/json');

async function tail(ctx, stream) {
  const head = await fetch(`${ctx.url}/api/sessions/${stream.session}/stream`, { method: 'HEAD' });
  return head.headers.get('stream-next-offset');
}

async function read(ctx, stream, search, request, response) {
  const gone = new AbortController();
  response.once('close', () => gone.abort());
  const query = search.includes('live=long-poll') ? `${search}&timeout=${LONG_POLL_SECONDS}` : search;
  const headers = {};
  if (request.headers['if-none-match']) headers['if-none-match'] = request.headers['if-none-match'];
  const where = `${ctx.url}/api/sessions/${stream.session}/stream${query}`;
  const found = await fetch(where, { method: request.method, headers, signal: gone.signal });
  const passed = Object.fromEntries(PASSED.filter((name) => found.headers.has(name)).map((name) => [name, found.headers.get(name)]));
  const kind = passed['content-type'] ?? '';
  if (kind === 'application/json' && !isJson(stream)) passed['content-type'] = stream.contentType;
  if (kind.startsWith('text/event-stream')) {
    response.writeHead(found.status, passed);
    try {
      for await (const block of blocks(found.body)) response.write(await translateBlock(stream, block));
    } catch (error) {
      if (!gone.signal.aborted) throw error;
    }
    return response.end();
  }
  const body = Buffer.from(await found.arrayBuffer());
  response.writeHead(found.status, passed);
  response.end(found.status === 200 && body.length > 0 ? join(stream, await appended(stream, JSON.parse(body))) : body);
}

/** The bytes of the appends among these events. */
async function appended(stream, events) {
  const ids = events.filter((event) => event.type === 'message.queued').map((event) => event.message_id);
  // An event can arrive before the answer to the request that caused it.
  if (ids.some((id) => !stream.appends.has(id))) await stream.pending;
  return ids.map((id) => stream.appends.get(id));
}

function join(stream, parts) {
  return isJson(stream) ? `[${parts.join(',')}]` : Buffer.concat(parts);
}

async function translateBlock(stream, block) {
  if (!block.startsWith('event: data\n')) return `${block}\n\n`;
  const parts = await appended(stream, JSON.parse(block.slice(block.indexOf('data:') + 'data:'.length)));
  if (parts.length === 0) return '';
  const lines = String(join(stream, parts)).split(/\r\n|\r|\n/);
  return `event: data\n${lines.map((line) => `data:${line}\n`).join('')}\n`;
}

/** The blocks of an event stream, without the empty line after each. */
async function* blocks(body) {
  const decoder = new TextDecoder();
  let text = '';
  for await (const bytes of body) {
    text += decoder.decode(bytes, { stream: true });
    const whole = text.split('\n\n');
    text = whole.pop();
    yield* whole;
  }
}

async function bytesOf(request) {
  const parts = [];
  for await (const part of request) parts.push(part);
  return Buffer.concat(parts);
}
