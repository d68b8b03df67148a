// A real `ctx serve` that can be killed and started again on the same port.
import { spawn } from 'node:child_process';
import { mkdtemp, mkdir, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';

const START_MS_MAX = 20_000;

export class CtxServer {
  /** Starts a server in a directory of its own. */
  static async start(config = '') {
    const server = new CtxServer();
    server.place = await mkdtemp(path.join(tmpdir(), 'ctx-streams-'));
    await mkdir(path.join(server.place, 'data'));
    await writeFile(path.join(server.place, 'data', 'ctx.toml'), config);
    await server.#spawn('127.0.0.1:0');
    return server;
  }

  get url() {
    return `http://${this.address}`;
  }

  async #spawn(listen) {
    const program = process.env.CTX_BIN;
    if (!program) throw new Error('CTX_BIN does not name the program');
    const args = ['--data', path.join(this.place, 'data'), 'serve', '--listen', listen, '--json'];
    const env = { PATH: process.env.PATH, HOME: this.place, CTX_LOG: 'error', CTX_DISCOVERY_ENABLED: 'false' };
    this.child = spawn(program, args, { cwd: this.place, env, stdio: ['ignore', 'pipe', 'inherit'] });
    this.exit = new Promise((resolve) => this.child.once('exit', resolve));
    const line = await new Promise((resolve, reject) => {
      const timer = setTimeout(() => reject(new Error('ctx did not start in time')), START_MS_MAX);
      let text = '';
      this.child.stdout.on('data', (bytes) => {
        text += bytes;
        if (text.includes('\n')) resolve(text);
      });
      this.exit.then((code) => reject(new Error(`ctx ended with ${code}`)));
      this.child.stdout.once('data', () => clearTimeout(timer));
    });
    this.address = JSON.parse(line).address;
  }

  /** Sends SIGKILL and starts the server again on the same port. */
  async killAndRestart() {
    this.child.kill('SIGKILL');
    await this.exit;
    await this.#spawn(this.address);
  }

  async end() {
    this.child.kill('SIGKILL');
    await this.exit;
    await rm(this.place, { recursive: true, force: true });
  }

  /** Sends a request with a JSON body, and again while the server is down. */
  async api(method, where, body, headers = {}) {
    for (;;) {
      try {
        const response = await fetch(`${this.url}/api${where}`, {
          method,
          headers: { ...headers, ...(body && { 'content-type': 'application/json' }) },
          body: body && JSON.stringify(body),
        });
        const text = await response.text();
        if (response.status >= 400) throw new ApiError(`${method} ${where}: ${response.status} ${text}`);
        return text ? JSON.parse(text) : null;
      } catch (error) {
        if (error instanceof ApiError) throw error;
        await new Promise((resolve) => setTimeout(resolve, 20));
      }
    }
  }
}

class ApiError extends Error {}
