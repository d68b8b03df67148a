// A real `ctx serve` in a directory of its own, a model that says what it is told, and a browser.
// Nothing here waits for a time: everything waits for something to be so, and gives up after PATIENCE_MS.
import { spawn, spawnSync } from 'node:child_process';
import { createServer } from 'node:http';
import { mkdtemp, mkdir, rm, writeFile } from 'node:fs/promises';
import { networkInterfaces, tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { chromium } from 'playwright-core';

export const PATIENCE_MS = 20_000;
const CTX = process.env.CTX_BIN ?? new URL('../../target/debug/ctx', import.meta.url).pathname;
const CHROMIUM = process.env.CHROMIUM_BIN ?? '/usr/bin/chromium';

/** A server; `stop` kills it as a crash would, `start` brings it back at the same address. */
export class Server {
  constructor(dir, host = '127.0.0.1') {
    this.dir = dir;
    this.host = host;
    this.port = 0;
  }

  static async start(config = '', fill = null) {
    const dir = await mkdtemp(join(tmpdir(), 'ctx-page-'));
    await mkdir(join(dir, 'data'));
    if (config) await writeFile(join(dir, 'data/ctx.toml'), config);
    const server = new Server(dir);
    if (fill) server.ctx('bench', 'fill', JSON.stringify({ dir: join(dir, 'data'), ...fill }));
    await server.start();
    return server;
  }

  /** A server that others can reach, and a token that it knows. Without a second address of this machine they come by loopback, which is no less asked. */
  static async forOthers(scope = 'write') {
    const found = Object.values(networkInterfaces()).flat().find((one) => one.family === 'IPv4' && !one.internal);
    const server = new Server(await mkdtemp(join(tmpdir(), 'ctx-page-')), found?.address);
    await mkdir(join(server.dir, 'data'));
    await writeFile(join(server.dir, 'data/ctx.toml'), `[server]\nhosts = ["${server.host}"]\nroots = ["${server.dir}"]\n`);
    const token = server.makeToken(scope);
    server.token = token.token;
    await server.start();
    return { server, token };
  }

  /** `{ id, token }`. */
  makeToken(scope) {
    return JSON.parse(this.ctx('token', 'create', '--scope', scope, '--name', scope, '--json'));
  }

  env() {
    return { HOME: this.dir, CTX_DATA: join(this.dir, 'data'), CTX_LOG: 'error', PATH: process.env.PATH };
  }

  /** A verb of the command line on the same store. */
  ctx(...args) {
    const done = spawnSync(CTX, args, { cwd: this.dir, env: this.env(), encoding: 'utf8' });
    if (done.status !== 0) throw new Error(`ctx ${args[0]}: ${done.stderr ?? done.error}`);
    return done.stdout;
  }

  async start() {
    const listen = this.token ? '0.0.0.0' : this.host;
    this.child = spawn(CTX, ['serve', '--listen', `${listen}:${this.port}`, '--json'], { cwd: this.dir, env: this.env(), stdio: ['ignore', 'pipe', 'inherit'] });
    const line = await new Promise((resolve, reject) => {
      createInterface({ input: this.child.stdout }).once('line', resolve);
      this.child.once('error', reject);
      this.child.once('exit', (code) => reject(new Error(`ctx serve ended with ${code}`)));
    });
    this.port = Number(JSON.parse(line).address.split(':').at(-1));
    this.url = `http://${this.host}:${this.port}`;
  }

  async kill(signal = 'SIGKILL') {
    const ended = new Promise((resolve) => this.child.once('exit', resolve));
    this.child.kill(signal);
    await ended;
  }

  async end() {
    if (this.child.exitCode === null && this.child.signalCode === null) await this.kill();
    await rm(this.dir, { recursive: true, force: true });
  }

  async api(method, path, body) {
    const response = await fetch(`${this.url}/api${path}`, { method, headers: this.headers(), body: body && JSON.stringify(body) });
    if (!response.ok) throw new Error(`${method} ${path}: ${await response.text()}`);
    return response.status === 204 ? null : response.json();
  }

  headers(more = {}) {
    return { 'content-type': 'application/json', ...(this.token && { authorization: `Bearer ${this.token}` }), ...more };
  }

  /** A session and its first message; waits until it is answered or waits itself. */
  async session(body) {
    const response = await fetch(`${this.url}/api/sessions`, { method: 'POST', headers: this.headers({ prefer: 'wait=10' }), body: JSON.stringify(body) });
    if (!response.ok) throw new Error(await response.text());
    return response.json();
  }

  async say(session, text, more = {}) {
    const response = await fetch(`${this.url}/api/sessions/${session}/messages`, { method: 'POST', headers: this.headers({ prefer: 'wait=10' }), body: JSON.stringify({ text, ...more }) });
    if (!response.ok) throw new Error(await response.text());
    return response.json();
  }
}

/**
 * A model that speaks chat completions. `answers` are by the user's last words, or by `after NAME` once a tool has
 * answered: a text, or `{ thought, text, call: { name, params } }`. Other words it answers with `otherwise`, or says back.
 */
export async function model(answers = {}) {
  const server = createServer(async (request, response) => {
    let body = '';
    for await (const chunk of request) body += chunk;
    const answer = answerTo(JSON.parse(body || '{}').messages ?? [], answers);
    response.writeHead(200, { 'content-type': 'text/event-stream' });
    const chunk = (delta, finish_reason = null) => response.write(`data: ${JSON.stringify({ choices: [{ index: 0, delta, finish_reason }] })}\n\n`);
    for (const piece of answer.thought?.match(/[\s\S]{1,24}/g) ?? []) chunk({ reasoning_content: piece });
    for (const piece of answer.text?.match(/[\s\S]{1,24}/g) ?? []) chunk({ content: piece });
    const { call } = answer;
    if (call) chunk({ tool_calls: [{ index: 0, id: `call_${calls++}`, type: 'function', function: { name: call.name, arguments: JSON.stringify(call.params) } }] });
    chunk({}, call ? 'tool_calls' : 'stop');
    response.end(`data: ${JSON.stringify({ choices: [], usage: { prompt_tokens: 1200, completion_tokens: 340 } })}\n\ndata: [DONE]\n\n`);
  });
  let calls = 1;
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
  return { url: `http://127.0.0.1:${server.address().port}/v1`, end: () => new Promise((resolve) => server.close(resolve)) };
}

function answerTo(messages, answers) {
  const plain = (content) => (typeof content === 'string' ? content : (content ?? []).map((part) => part.text ?? '').join(''));
  const words = plain(messages.findLast((message) => message.role === 'user')?.content);
  const called = messages.at(-1)?.role === 'tool' && messages.findLast((message) => message.tool_calls)?.tool_calls.at(-1).function.name;
  const answer = answers[called ? `after ${called}` : words] ?? answers.otherwise ?? words;
  return typeof answer === 'string' ? { text: answer } : answer;
}

/** The smallest picture that is not grey: one dot. */
export const PNG = Buffer.from('iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==', 'base64');

export const browser = () => chromium.launch({ executablePath: CHROMIUM, args: ['--no-sandbox', '--disable-gpu', '--force-prefers-reduced-motion'] });

/** A page whose mistakes fail the test: errors of scripts, what the policy blocked. */
export async function open(chrome, url, options = {}) {
  const context = await chrome.newContext({ viewport: { width: 1280, height: 860 }, ...options });
  const page = await context.newPage();
  page.setDefaultTimeout(PATIENCE_MS);
  page.mistakes = [];
  page.on('pageerror', (error) => page.mistakes.push(String(error)));
  page.on('console', (message) => {
    if (message.type() === 'error' && !/Failed to load resource|ERR_CONNECTION|ERR_INCOMPLETE|net::ERR/.test(message.text())) page.mistakes.push(message.text());
  });
  await page.goto(url);
  return page;
}

/** Writes a message and sends it. */
export async function write(page, text) {
  await page.getByRole('textbox', { name: 'Message' }).fill(text);
  await page.getByRole('button', { name: 'Send' }).click();
}

export const said = (page, text) => page.locator('.row').filter({ hasText: text }).first().waitFor();

/** Waits for a condition in this process. */
export async function until(what, condition) {
  const end = Date.now() + PATIENCE_MS;
  for (;;) {
    const found = await condition();
    if (found) return found;
    if (Date.now() > end) throw new Error(`never: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}
