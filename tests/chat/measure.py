#!/usr/bin/env python3
"""Measures `ctx chat` on a pseudo terminal while a model server streams: processor time, memory,
and the time from a key to its echo on the screen.

    tests/chat/measure.py PROGRAM [MINUTES] [TOKENS_PER_SECOND]

Prints one JSON document. The conversation is scripted: answers of Markdown with code, one after the
other. Only the standard library is used."""

import fcntl, http.server, json, os, pty, re, select, struct, subprocess, sys, tempfile, termios, threading, time

PROGRAM = os.path.abspath(sys.argv[1])
MINUTES = float(sys.argv[2]) if len(sys.argv) > 2 else 3
RATE = float(sys.argv[3]) if len(sys.argv) > 3 else 200
COLUMNS, ROWS = 160, 50
ANSWER_TOKENS = 4000

BLOCK = """## Step {n}

The client retries a request with **exponential backoff**, at most `5` times, and logs each attempt
with the reason. See [the docs](https://example.org/retry) for the limits.

```rust
fn retry<T>(mut call: impl FnMut() -> Result<T, Error>) -> Result<T, Error> {{
    for attempt in 0..5 {{ // each attempt waits longer
        if let Ok(value) = call() {{ return Ok(value); }}
        sleep(Duration::from_millis(100 << attempt));
    }}
    Err(Error::Exhausted("after 5 attempts"))
}}
```

- first, a list item with some words
- second, another one

| attempt | pause |
|---|---|
| 1 | 100 ms |
| 2 | 200 ms |

"""


def tokens():
    n = 0
    while True:
        yield from re.findall(r"\s*\S{1,5}", BLOCK.format(n=n))
        yield "\n\n"
        n += 1


class Model(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.0"

    def log_message(self, *_):
        pass

    def do_POST(self):
        request = self.rfile.read(int(self.headers.get("content-length", 0)))
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.end_headers()
        start, sent = time.monotonic(), 0
        try:
            for token in tokens():
                if sent >= ANSWER_TOKENS:
                    break
                self.chunk({"content": token}, None)
                sent += 1
                ahead = start + sent / RATE - time.monotonic()
                if ahead > 0:
                    time.sleep(ahead)
            self.chunk({}, "stop")
            # As model servers do. A request has about one token per five bytes here.
            usage = {"prompt_tokens": len(request) // 5, "completion_tokens": sent}
            self.event({"choices": [], "usage": usage})
            self.wfile.write(b"data: [DONE]\n\n")
        except OSError:
            pass

    def chunk(self, delta, finish):
        choice = {"index": 0, "delta": delta, "finish_reason": finish}
        self.event({"choices": [choice]})

    def event(self, document):
        self.wfile.write(b"data: " + json.dumps(document).encode() + b"\n\n")
        self.wfile.flush()


def usage(pid):
    fields = open(f"/proc/{pid}/stat").read().rsplit(")", 1)[1].split()
    cpu = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    status = open(f"/proc/{pid}/status").read()
    value = lambda name: int(re.search(name + r":\s+(\d+)", status).group(1)) / 1024
    return cpu, value("VmRSS"), value("VmHWM")


def main():
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Model)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    home = tempfile.mkdtemp(prefix="ctx-chat-measure-")
    env = {"PATH": os.environ["PATH"], "HOME": home, "TERM": "xterm-256color",
           "CTX_DATA": f"{home}/data", "CTX_DISCOVERY_ENABLED": "false"}
    os.mkdir(f"{home}/data")
    with open(f"{home}/data/ctx.toml", "w") as file:
        file.write('[defaults]\nprovider = "model"\n[providers.model]\nkind = "openai"\n'
                   f'base_url = "http://127.0.0.1:{server.server_port}/v1"\nmodel = "m"\n'
                   'context_window = 1000000\n')
    pid, master = pty.fork()
    if pid == 0:
        os.chdir(home)
        os.execve(PROGRAM, [PROGRAM, "chat"], env)
    fcntl.ioctl(master, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
    buffer, written = b"", 0

    def read(seconds):
        nonlocal buffer, written
        if select.select([master], [], [], seconds)[0]:
            got = os.read(master, 65536)
            written += len(got)
            buffer = (buffer + got)[-65536:]
            return got
        return b""

    def wait(text, seconds=20):
        end = time.monotonic() + seconds
        while text not in buffer and time.monotonic() < end:
            read(0.1)
        if text not in buffer:
            sys.exit(f"not shown: {text!r}; last output: {buffer[-500:]!r}")

    wait(b"new")
    os.write(master, b"begin")
    time.sleep(0.3)
    os.write(master, b"\r")
    wait(b"running")
    cpu_start, started = usage(pid)[0], time.monotonic()
    echoes, samples, marks = [], [], "abcdefghijklmnopqrstuvwxyz"
    next_key, next_sample, n, sent = started + 1, started + 10, 0, 1
    while time.monotonic() < started + MINUTES * 60:
        now = time.monotonic()
        if now >= next_sample:
            cpu, rss, _ = usage(pid)
            samples.append({"seconds": round(now - started), "cpu_seconds": round(cpu - cpu_start, 2),
                            "rss_mb": round(rss, 1)})
            next_sample += 10
            # The next answer starts when the last one has ended.
            if b"Enter sends" in buffer[-20000:]:
                pass
        if now >= next_key:
            # A rare character, so that streamed text is not taken for its echo.
            mark = chr(0x4E00 + n % 500).encode()
            at = time.perf_counter()
            os.write(master, mark)
            seen, until = b"", time.monotonic() + 2
            while mark not in seen and time.monotonic() < until:
                seen += read(0.5)
            if mark in seen:
                echoes.append((time.perf_counter() - at) * 1000)
            n += 1
            next_key = time.monotonic() + 0.11
            if n % 40 == 0:
                # Queue what was typed: the answer to it follows the current one.
                os.write(master, b"\t")
        else:
            read(min(0.02, max(0, next_key - now)))
    cpu, rss, peak = usage(pid)
    elapsed = time.monotonic() - started
    os.write(master, b"\x03")
    time.sleep(0.4)
    os.write(master, b"\x03")
    end = time.monotonic() + 10
    status = None
    while time.monotonic() < end:
        done, code = os.waitpid(pid, os.WNOHANG)
        if done:
            status = os.waitstatus_to_exitcode(code)
            break
        try:
            read(0.05)
        except OSError:
            time.sleep(0.05)
    echoes.sort()
    rank = lambda part: round(echoes[min(len(echoes) - 1, int(len(echoes) * part))], 2)
    print(json.dumps({
        "seconds": round(elapsed), "tokens_per_second": RATE,
        "cpu_percent": round((cpu - cpu_start) / elapsed * 100, 1),
        "rss_mb": round(rss, 1), "peak_mb": round(peak, 1),
        "keys": len(echoes), "echo_ms": {"p50": rank(0.5), "p99": rank(0.99), "max": rank(1)},
        "output_kb_per_second": round(written / elapsed / 1024, 1),
        "exit": status, "samples": samples[:: max(1, len(samples) // 12)],
    }))


main()
