// The test harness: a real `ctx serve` in a temporary directory, a scripted model, a browser.
// Tests wait for conditions, never for a fixed time; each wait ends with an error after TIMEOUT_MS.
import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import { createServer } from 'node:http';
import { mkdtemp, mkdir, readFile, rm, writeFile } from 'node:fs/promises';
import { networkInterfaces, tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { chromium } from 'playwright-core';

export const TIMEOUT_MS = 20_000;
const POLL_MS = 20;
const CTX = process.env.CTX_BIN ?? new URL('../../target/debug/ctx', import.meta.url).pathname;
const CHROMIUM = process.env.CHROMIUM_BIN ?? '/usr/bin/chromium';

/** Texts that the demo provider sends (crates/ctx-providers/src/demo). */
export const DEMO = {
  greeting: 'I am the demo agent',
  help: 'I think before I answer',
  /** Answers to most messages quote them. */
  quote: (text) => `You said: “${text}”`,
  /** The start and a later part of the answer to `slow N` and `long N`. */
  filler: 'the demo agent of ctx has no model',
  fillerLater: 'these words only',
  steered: (text) => `(You wrote “${text}” meanwhile.`,
  permission: 'May the demo agent pretend to write demo.txt?',
  chosen: (option) => `You chose “${option}”`,
  toolResult: (text) => `The tool says: ${text}`,
  clock: 'My clock shows',
  thought: 'A demo agent has little to think about.',
  afterThought: 'I thought about it',
  beforeFailure: 'This is the text before the failure.',
  failure: 'The demo agent failed, because it was asked to.',
  summary: 'A summary by the demo agent',
};

export const DEMO_CONFIG = '[providers.demo]\nkind = "demo"\n';

/** Configuration of a provider for a server started with `startModel`. */
export const modelConfig = (id, url, model, more = '') =>
  `[providers.${id}]\nkind = "openai"\nbase_url = "${url}"\nmodel = "${model}"\n${more}`;

export const defaultProvider = (id) => `[defaults]\nprovider = "${id}"\n`;

/** Name of the environment variable with the secret of the channels. */
const CHANNEL_SECRET = 'CHANNEL_SECRET';

export const channelConfig = (name, url) =>
  `[channels.${name}]\nurl = "${url}"\nsecret_env = "${CHANNEL_SECRET}"\n`;

/** Policies that admit direct messages: of known senders and owners, and of unknown ones. */
export const DM_POLICIES = `policies:
  - name: owner-dm
    match: {principal: {type: owner}, delivery: {peer_kind: dm}}
    session: {key: "dm:{principal.entity_id}"}
  - name: known-dm
    match: {principal: {type: known}, delivery: {peer_kind: dm}}
    session: {key: "dm:{principal.entity_id}"}
  - name: unknown-dm
    match: {principal: {type: unknown}, delivery: {peer_kind: dm}}
    session: {key: "dm:{delivery.channel}:{delivery.sender_id}"}
`;

export class Server {
  constructor(dir, host = '127.0.0.1') {
    this.dir = dir;
    this.host = host;
    /** 0 until the first start. A restart uses the same port. */
    this.port = 0;
  }

  /** `fill` are the options of `ctx bench fill`, which creates a long session. `policies` is the
   * content of policies.yaml. */
  static async start(config = '', fill = null, policies = '') {
    const dir = await mkdtemp(join(tmpdir(), 'ctx-page-'));
    await mkdir(join(dir, 'data'));
    if (config) await writeFile(join(dir, 'data/ctx.toml'), config);
    if (policies) await writeFile(join(dir, 'data/policies.yaml'), policies);
    const server = new Server(dir);
    if (fill) {
      server.runCtx('bench', 'fill', JSON.stringify({ dir: join(dir, 'data'), ...fill }));
    }
    await server.start();
    return server;
  }

  /** A server that listens on all addresses and requires a token. It is used through an address of
   * this machine that is not loopback, if there is one. */
  static async startWithToken(scope = 'write') {
    const addresses = Object.values(networkInterfaces()).flat();
    const external = addresses.find((one) => one.family === 'IPv4' && !one.internal);
    const server = new Server(await mkdtemp(join(tmpdir(), 'ctx-page-')), external?.address);
    await mkdir(join(server.dir, 'data'));
    const config = `[server]\nhosts = ["${server.host}"]\nroots = ["${server.dir}"]\n`;
    await writeFile(join(server.dir, 'data/ctx.toml'), config);
    const token = server.createToken(scope);
    server.token = token.token;
    await server.start();
    return { server, token };
  }

  /** Returns `{ id, token }`. */
  createToken(scope) {
    return JSON.parse(this.runCtx('token', 'create', '--scope', scope, '--name', scope, '--json'));
  }

  env() {
    return {
      HOME: this.dir,
      CTX_DATA: join(this.dir, 'data'),
      CTX_LOG: 'error',
      [CHANNEL_SECRET]: 'secret of the tests',
      PATH: process.env.PATH,
    };
  }

  /** Runs a `ctx` command on the store of this server and returns its output. */
  runCtx(...args) {
    const done = spawnSync(CTX, args, { cwd: this.dir, env: this.env(), encoding: 'utf8' });
    if (done.status !== 0) throw new Error(`ctx ${args[0]}: ${done.stderr ?? done.error}`);
    return done.stdout;
  }

  async start() {
    const address = this.token ? '0.0.0.0' : this.host;
    this.child = spawn(CTX, ['serve', '--listen', `${address}:${this.port}`, '--json'], {
      cwd: this.dir,
      env: this.env(),
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    const line = await new Promise((resolve, reject) => {
      createInterface({ input: this.child.stdout }).once('line', resolve);
      this.child.once('error', reject);
      this.child.once('exit', (code) => reject(new Error(`ctx serve exited with ${code}`)));
    });
    this.port = Number(JSON.parse(line).address.split(':').at(-1));
    this.url = `http://${this.host}:${this.port}`;
  }

  async kill() {
    const exited = new Promise((resolve) => this.child.once('exit', resolve));
    this.child.kill('SIGKILL');
    await exited;
  }

  /** Kills the server and deletes its directory. */
  async end() {
    if (this.child.exitCode === null && this.child.signalCode === null) await this.kill();
    await rm(this.dir, { recursive: true, force: true });
  }

  async api(method, path, body, headers = {}) {
    const response = await fetch(`${this.url}/api${path}`, {
      method,
      headers: {
        'content-type': 'application/json',
        ...(this.token && { authorization: `Bearer ${this.token}` }),
        ...headers,
      },
      body: body && JSON.stringify(body),
    });
    if (!response.ok) throw new Error(`${method} ${path}: ${await response.text()}`);
    return response.status === 204 ? null : response.json();
  }

  /** Creates a session. Its message, if any, is answered or suspended when this returns. */
  createSession(body) {
    return this.api('POST', '/sessions', body, { prefer: 'wait=10' });
  }

  /** Sends a message and waits for its answer or a suspension. */
  send(session, text, more = {}) {
    const path = `/sessions/${session}/messages`;
    return this.api('POST', path, { text, ...more }, { prefer: 'wait=10' });
  }

  /** Sends a direct message from a channel, waits for its answer, and returns the session. */
  async receive(channel, sender_id, text) {
    const body = { channel, sender_id, text };
    const { session } = await this.api('POST', '/inbound', body);
    return this.untilState(session, 'idle');
  }

  /** Waits until the session has this state. */
  untilState(session, state) {
    return until(`state ${state}`, async () => {
      const found = await this.api('GET', `/sessions/${session}`);
      return found.state === state && found;
    });
  }
}

/**
 * A server for the chat completions API. `answers` maps the last user message, or `after NAME` for
 * the result of tool NAME, to a text or to `{ thought, text, call: { name, params } }`. All other
 * messages are answered with `answers.otherwise`, or with their own text.
 */
export async function startModel(answers = {}) {
  let calls = 1;
  const server = createServer(async (request, response) => {
    let body = '';
    for await (const chunk of request) body += chunk;
    if (request.method === 'GET' && request.url.endsWith('/models')) {
      const data = (answers.models ?? ['echo-1', 'echo-2']).map((id) => ({ id }));
      response.writeHead(200, { 'content-type': 'application/json' });
      return response.end(JSON.stringify({ data }));
    }
    const answer = answerTo(JSON.parse(body || '{}').messages ?? [], answers);
    response.writeHead(200, { 'content-type': 'text/event-stream' });
    const write = (data) => response.write(`data: ${JSON.stringify(data)}\n\n`);
    const writeDelta = (delta, finish_reason = null) =>
      write({ choices: [{ index: 0, delta, finish_reason }] });
    const pieces = (text) => text?.match(/[\s\S]{1,24}/g) ?? [];
    for (const piece of pieces(answer.thought)) writeDelta({ reasoning_content: piece });
    for (const piece of pieces(answer.text)) writeDelta({ content: piece });
    const { call } = answer;
    if (call) {
      const called = { name: call.name, arguments: JSON.stringify(call.params) };
      const id = `call_${calls++}`;
      writeDelta({ tool_calls: [{ index: 0, id, type: 'function', function: called }] });
    }
    writeDelta({}, call ? 'tool_calls' : 'stop');
    write({ choices: [], usage: { prompt_tokens: 1200, completion_tokens: 340 } });
    response.end('data: [DONE]\n\n');
  });
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
  return {
    url: `http://127.0.0.1:${server.address().port}/v1`,
    end: () => new Promise((resolve) => server.close(resolve)),
  };
}

/** The receiver of a channel. It answers with `status`, which a test can change. */
export async function startChannel(status) {
  const channel = { status, received: [] };
  const server = createServer(async (request, response) => {
    let body = '';
    for await (const chunk of request) body += chunk;
    channel.received.push(JSON.parse(body));
    response.writeHead(channel.status).end();
  });
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
  channel.url = `http://127.0.0.1:${server.address().port}/`;
  channel.end = () => new Promise((resolve) => server.close(resolve));
  return channel;
}

function answerTo(messages, answers) {
  const textOf = (content) =>
    typeof content === 'string' ? content : (content ?? []).map((part) => part.text ?? '').join('');
  const lastUser = messages.findLast((message) => message.role === 'user');
  const text = textOf(lastUser?.content);
  const tool =
    messages.at(-1)?.role === 'tool' &&
    messages.findLast((message) => message.tool_calls)?.tool_calls.at(-1).function.name;
  const answer = answers[tool ? `after ${tool}` : text] ?? answers.otherwise ?? text;
  return typeof answer === 'string' ? { text: answer } : answer;
}

/** A PNG image of one pixel. */
export const PNG = Buffer.from(
  'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==',
  'base64',
);

export const launchBrowser = () =>
  chromium.launch({
    executablePath: CHROMIUM,
    args: ['--no-sandbox', '--disable-gpu', '--force-prefers-reduced-motion'],
  });

/** With CTX_PAGE_DIR set, the files of the page come from that directory instead of the program, so
 * that a change of the page needs no build of the program. */
const PAGE_DIR = process.env.CTX_PAGE_DIR;
const MEDIA_TYPES = {
  html: 'text/html',
  js: 'text/javascript',
  css: 'text/css',
  svg: 'image/svg+xml',
};

async function servePageFrom(context, dir) {
  const isPage = (url) => url.pathname === '/' || url.pathname.startsWith('/assets/');
  await context.route(isPage, async (route) => {
    const path = new URL(route.request().url()).pathname;
    const file = path === '/' ? 'index.html' : path.slice('/assets/'.length);
    const body = await readFile(join(dir, file)).catch(() => null);
    if (!body) return route.fulfill({ status: 404 });
    const answer = await route.fetch().catch(() => null);
    if (!answer) return route.abort();
    const policy = answer.headers()['content-security-policy'];
    await route.fulfill({
      body,
      contentType: MEDIA_TYPES[file.split('.').at(-1)],
      headers: policy ? { 'content-security-policy': policy } : {},
    });
  });
}

/** A browser context in which the page is served as `servePageFrom` describes. */
export async function newContext(browser, options) {
  const context = await browser.newContext(options);
  if (PAGE_DIR) await servePageFrom(context, PAGE_DIR);
  return context;
}

/** Opens a page. Script errors and violations of the content security policy are collected in
 * `page.errors`; failed requests are not, because tests kill servers. */
export async function openPage(browser, url, options = {}) {
  const context = await newContext(browser, {
    viewport: { width: 1280, height: 860 },
    ...options,
  });
  const page = await context.newPage();
  page.setDefaultTimeout(TIMEOUT_MS);
  page.errors = [];
  page.on('pageerror', (error) => page.errors.push(String(error)));
  page.on('console', (message) => {
    const isNetwork = /Failed to load resource|net::ERR/.test(message.text());
    if (message.type() === 'error' && !isNetwork) page.errors.push(message.text());
  });
  await page.goto(url);
  return page;
}

/** Runs `act` on a page, closes it, and fails if there was an error in the page. */
export async function withPage(browser, url, act, options = {}) {
  const page = await openPage(browser, url, options);
  try {
    await act(page);
    assert.deepEqual(page.errors, []);
  } finally {
    await page.context().close();
  }
}

export const messageField = (page) => page.getByRole('textbox', { name: 'Message', exact: true });

export async function sendMessage(page, text) {
  await messageField(page).fill(text);
  await page.getByRole('button', { name: 'Send', exact: true }).click();
}

/** Chooses an entry of the menu of further actions. */
export async function openMenu(page, entry) {
  await page.getByRole('button', { name: 'More actions' }).click();
  await page.getByRole('menuitem', { name: entry }).click();
}

/** Waits for a row of the transcript with this text. */
export const untilRow = (page, text) =>
  page.locator('.row').filter({ hasText: text }).first().waitFor();

/** The id in the URL of the page. */
export const sessionIdOf = (page) =>
  decodeURIComponent(new URL(page.url()).hash.split('/')[2] ?? '');

/** Attaches a PNG image, sends it with a text to the demo agent, and waits until it is shown. */
export async function sendImage(page, text) {
  const file = { name: 'dot.png', mimeType: 'image/png', buffer: PNG };
  await page.locator('input[type=file]').setInputFiles(file);
  await page.getByRole('list', { name: 'Attachments' }).getByText('dot.png').waitFor();
  await page.getByText('demo does not support images').waitFor();
  await sendMessage(page, text);
  await page.locator('.row-footer').waitFor();
  await untilImageShown(page);
}

export const untilImageShown = (page) =>
  page.waitForFunction(() => document.querySelector('.user .image img')?.naturalWidth === 1);

/** Polls a condition in this process until it is truthy, and returns its value. */
export async function until(what, condition) {
  const end = Date.now() + TIMEOUT_MS;
  for (;;) {
    const value = await condition();
    if (value) return value;
    if (Date.now() > end) throw new Error(`timed out: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, POLL_MS));
  }
}
