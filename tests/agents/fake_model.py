"""A fake model server on loopback that plays scripts and records requests.

Every user text of a cell contains a unique marker. A script belongs to a marker: it lists the answers to the requests
whose newest marker it is. Without a script the answer is one sentence that names the marker. Requests without tools
(titles, routing) do not consume a script: agents send them outside the conversation.
"""

import gzip
import json
import re
import secrets
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import wire_formats

MARKER = re.compile(r"\bmark[0-9a-f]{10}\b")
# More requests mean a loop between an agent and a script.
REQUESTS_MAX = 400
# Prefix of the model names that ctx requests directly, without an agent.
DIRECT = "direct"


def marker():
    return "mark" + secrets.token_hex(5)


def answer_to(mark):
    """The default answer to a text. It does not repeat the marker, which would then be counted twice."""
    return f"This answers {mark.removeprefix('mark')}."


def newest_marker(conversation):
    """The last marker in a conversation."""
    found = MARKER.findall(json.dumps(conversation))
    return found[-1] if found else None


class Request:
    """A recorded request."""

    def __init__(self, number, path, body, wire):
        self.number, self.path, self.body, self.wire = number, path, body, wire
        self.at = time.monotonic()
        self.text = json.dumps(body)
        self.conversation = wire.conversation(body) if wire else []
        self.tools = wire.tools(body) if wire else []
        self.marker = newest_marker(self.conversation)
        self.gone = False

    def count(self, mark):
        """The number of occurrences of a marker in the whole request."""
        return len(re.findall(rf"\b{mark}\b", self.text))


class Model:
    """The server, its scripts and its records."""

    def __init__(self):
        self.side = lambda request: None
        self.lock = threading.Condition()
        self.requests, self.scripts, self.next = [], {}, None
        self.log = None
        handler = type("Handler", (Handler,), {"model": self})
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self.server.daemon_threads = True
        # Clients may be killed at any time; errors of their connections are expected.
        self.server.handle_error = lambda *_: None
        self.address = f"http://127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def begin(self, path, side):
        """Starts a new cell: clears the records, logs to `path`. `side` answers requests outside the conversation."""
        with self.lock:
            self.requests, self.scripts, self.next, self.side = [], {}, None, side
            if self.log:
                self.log.close()
            self.log = open(path, "w", encoding="utf-8")

    def script(self, mark, *answers):
        with self.lock:
            self.scripts[mark] = list(answers)

    def script_next(self, *answers):
        """The answers to the next requests of the conversation, whatever they contain. All earlier ones must be used."""
        with self.lock:
            assert not self.next, f"the agent did not request {self.next}"
            self.next = list(answers)

    def record(self, path, headers, body):
        wire, _ = wire_formats.of(path)
        with self.lock:
            request = Request(len(self.requests), path, body, wire)
            self.requests.append(request)
            self.write({"at": time.time(), "path": path, "headers": headers, "body": body})
            self.lock.notify_all()
        return request

    def write(self, line):
        if self.log:
            self.log.write(json.dumps(line) + "\n")
            self.log.flush()

    def answer(self, request):
        default = wire_formats.Say(answer_to(request.marker) if request.marker else "Nothing was asked.")
        with self.lock:
            if len(self.requests) > REQUESTS_MAX:
                return wire_formats.Say("Too many requests for one cell.")
            waiting = self.scripts.get(request.marker)
            if not self.is_conversation(request):
                return self.side(request) or default
            if self.next:
                return self.next.pop(0)
            return waiting.pop(0) if waiting else default

    def is_conversation(self, request):
        """Whether a request belongs to the conversation."""
        if request.wire is None:
            return False
        # ctx itself requests these models, with or without tools.
        if str(request.body.get("model", "")).startswith(DIRECT):
            return True
        return bool(request.tools) and self.side(request) is None

    def newest(self, mark=None):
        """The newest request of the conversation, if given with this marker as its newest one."""
        with self.lock:
            own = [each for each in self.requests if self.is_conversation(each) and mark in (None, each.marker)]
            return own[-1] if own else None

    def wait(self, what, holds, seconds=30.0):
        """Waits until a condition on the records holds."""
        end = time.monotonic() + seconds
        with self.lock:
            while not holds():
                left = end - time.monotonic()
                if left <= 0:
                    raise AssertionError(f"the model never saw {what} in {seconds:.0f} s")
                self.lock.wait(left)


class Handler(BaseHTTPRequestHandler):
    """The HTTP interface of the fake model."""

    protocol_version = "HTTP/1.1"
    model = None

    def log_message(self, *_):
        pass

    def do_HEAD(self):
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def do_GET(self):
        if "models" in self.path:
            one = {"id": "scripted", "object": "model", "created": 1, "owned_by": "tests", "display_name": "Scripted", "type": "model"}
            return self.document({"object": "list", "data": [one], "models": []})
        return self.document({"error": {"message": "not found"}}, 404)

    def do_POST(self):
        body = self.read()
        path = self.path.split("?")[0]
        if path.endswith("/count_tokens"):
            return self.document({"input_tokens": wire_formats.USAGE_IN})
        wire, streams = wire_formats.of(path)
        headers = {name: value for name, value in self.headers.items() if name.lower() not in ("authorization", "x-api-key", "x-goog-api-key")}
        request = self.model.record(path, headers, body)
        if wire is None:
            return self.document({"error": {"message": f"unknown path {path}"}}, 404)
        answer = self.model.answer(request)
        if streams is None:
            streams = bool(body.get("stream"))
        if not streams:
            return self.document(wire.whole(body, answer, request.number))
        self.close_connection = True
        try:
            self.send_response(200)
            self.send_header("Content-Type", "text/event-stream")
            self.send_header("Cache-Control", "no-cache")
            self.send_header("Connection", "close")
            self.end_headers()
            wire.stream(body, answer, request.number, self.emit)
        except (BrokenPipeError, ConnectionResetError):
            with self.model.lock:
                request.gone = True
                self.model.lock.notify_all()

    def emit(self, data, name=None):
        text = data if isinstance(data, str) else json.dumps(data)
        self.wfile.write((f"event: {name}\n" if name else "").encode() + f"data: {text}\n\n".encode())
        self.wfile.flush()

    def read(self):
        if "chunked" in self.headers.get("Transfer-Encoding", ""):
            raw = b""
            while size := int(self.rfile.readline().strip() or b"0", 16):
                raw += self.rfile.read(size)
                self.rfile.readline()
            self.rfile.readline()
        else:
            raw = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if self.headers.get("Content-Encoding") == "gzip":
            raw = gzip.decompress(raw)
        try:
            return json.loads(raw or b"{}")
        except ValueError:
            return {"unreadable": repr(raw[:200])}

    def document(self, value, status=200):
        raw = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(raw)))
        self.end_headers()
        self.wfile.write(raw)
