#!/usr/bin/env python3
"""Makes the screenshots of `ctx chat`: docs/screenshots/chat-80x24.webp and chat-160x50.webp.

    tests/screenshots/chat.py PROGRAM [OUTPUT_DIRECTORY]

Runs the program in tmux, with the demo agent and a model server of its own."""

import http.server, json, os, subprocess, sys, tempfile, threading, time

PROGRAM = os.path.abspath(sys.argv[1])
HERE = os.path.dirname(os.path.abspath(__file__))
OUTPUT = sys.argv[2] if len(sys.argv) > 2 else os.path.join(HERE, "../../docs/screenshots")

ANSWER = """The client gives up after the first failure. I would add **exponential backoff**:

```rust
fn retry<T>(mut call: impl FnMut() -> Result<T, Error>) -> Result<T, Error> {
    for attempt in 0..5 {
        if let Ok(value) = call() { return Ok(value); }
        sleep(Duration::from_millis(100 << attempt)); // 100 ms, 200 ms, ...
    }
    Err(Error::Exhausted("after 5 attempts"))
}
```

| failure | retried |
|---|---|
| timeout, `503` | yes |
| `401`, `404` | no |

Two things to decide:

1. Should a *rate limit* wait for as long as the server asks?
2. Where is each attempt logged?
"""


class Model(http.server.BaseHTTPRequestHandler):
    def log_message(self, *_):
        pass

    def do_POST(self):
        try:
            self.answer()
        except OSError:
            pass

    def answer(self):
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        last = str(body["messages"][-1]["content"])
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.end_headers()
        slow = "log" in last
        for word in ANSWER.split(" ") if not slow else ("Each attempt is logged at `debug` " * 40).split(" "):
            self.chunk({"content": word + " "}, None)
            time.sleep(0.15 if slow else 0.002)
        self.chunk({}, "stop")
        self.wfile.write(b"data: [DONE]\n\n")

    def chunk(self, delta, finish):
        choice = {"index": 0, "delta": delta, "finish_reason": finish}
        self.wfile.write(b"data: " + json.dumps({"choices": [choice]}).encode() + b"\n\n")
        self.wfile.flush()


def tmux(*arguments):
    done = subprocess.run(["tmux", "-f", "/dev/null", "-L", "ctx-shots", *arguments], capture_output=True, text=True)
    return done.stdout


def wait(text, seconds=30):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if text in tmux("capture-pane", "-p"):
            return
        time.sleep(0.05)
    sys.exit(f"not shown: {text}\n{tmux('capture-pane', '-p')}")


def type_line(text):
    tmux("send-keys", "-l", text)
    wait(text[-20:])
    tmux("send-keys", "Enter")


def shoot(columns, rows, port):
    home = tempfile.mkdtemp(prefix="ctx-shots-")
    project = os.path.join(home, "client")
    os.makedirs(f"{home}/data")
    os.makedirs(f"{project}/src")
    for name in ("src/client.rs", "src/retry.rs", "README.md"):
        open(f"{project}/{name}", "w").close()
    with open(f"{home}/data/ctx.toml", "w") as file:
        file.write('[defaults]\nprovider = "demo"\n[providers.local]\nkind = "openai"\n'
                   f'base_url = "http://127.0.0.1:{port}/v1"\nmodel = "qwen3-coder"\n')
    command = f"cd {project} && HOME={home} CTX_DATA={home}/data CTX_DISCOVERY_ENABLED=false exec {PROGRAM} chat"
    tmux("kill-server")
    tmux("new-session", "-d", "-x", str(columns), "-y", str(rows), command)
    wait("F1 help")
    type_line("Use a tool: what time is it?")
    wait("Enter sends")
    wait("in a demo")
    type_line("/model local")
    wait("local/qwen3-coder")
    type_line("The client fails on the first timeout. What should we change?")
    wait("logged?")
    wait("Enter sends")
    type_line("Retry 5 times, and log each attempt")
    wait("Each attempt is logged")
    tmux("send-keys", "-l", "also add a test")
    wait("also add a test")
    tmux("send-keys", "Tab")
    wait("waits:")
    tmux("send-keys", "-l", "and then look at @")
    time.sleep(1.5)
    ansi = tmux("capture-pane", "-ep")
    target = os.path.join(OUTPUT, f"chat-{columns}x{rows}.webp")
    script = os.path.join(HERE, "terminal.mjs")
    subprocess.run(["node", script, target, str(columns), str(rows)], input=ansi, text=True, check=True)
    tmux("kill-server")
    print(target)


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Model)
threading.Thread(target=server.serve_forever, daemon=True).start()
for size in ((80, 24), (160, 50)):
    shoot(*size, server.server_port)
