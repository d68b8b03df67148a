"""A model server on loopback whose answers name the length of the conversation, and that calls back at chosen points."""

import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

WORDS = 6
PAUSE = 0.02


def answer_to(count):
    """The answer to a conversation of `count` messages."""
    return f"answer {count}" + "".join(f" word{n}" for n in range(WORDS))


class Model:
    """The server, and what it has received."""

    def __init__(self):
        self.requests, self.faults = [], []
        # Called with the number of the request and the number of words that were sent.
        self.point = lambda number, words: None
        handler = type("Handler", (Handler,), {"model": self})
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self.server.daemon_threads = True
        # ctx is killed during its requests.
        self.server.handle_error = lambda *_: None
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}/v1"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def take(self, body):
        """Records a request and checks that every message of the user is in it once."""
        messages = [message for message in body["messages"] if message["role"] != "system"]
        users = [json.dumps(message["content"]) for message in messages if message["role"] == "user"]
        if len(set(users)) != len(users):
            self.faults.append(f"a message is in the request twice: {users}")
        roles = [message["role"] for message in messages]
        if roles != ["user", "assistant"] * (len(messages) // 2) + ["user"]:
            self.faults.append(f"the roles do not alternate: {roles}")
        self.requests.append(messages)
        return len(self.requests), len(messages)


class Handler(BaseHTTPRequestHandler):
    """Chat completions, streamed word by word."""

    protocol_version = "HTTP/1.1"
    model = None

    def log_message(self, *_):
        pass

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        number, count = self.model.take(body)
        self.model.point(number, 0)
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("connection", "close")
        self.end_headers()
        words = answer_to(count).split(" ")
        for at, word in enumerate(words):
            self.chunk({"content": word if at == 0 else " " + word}, None)
            time.sleep(PAUSE)
            self.model.point(number, at + 1)
        self.chunk({}, "stop")
        usage = {"prompt_tokens": count, "completion_tokens": len(words), "total_tokens": count + len(words)}
        self.data({"choices": [], "usage": usage})
        self.wfile.write(b"data: [DONE]\n\n")
        self.close_connection = True

    def chunk(self, delta, finish):
        self.data({"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]})

    def data(self, value):
        self.wfile.write(f"data: {json.dumps(value)}\n\n".encode())
        self.wfile.flush()
