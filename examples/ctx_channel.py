"""The ctx side of a channel adapter: messages to ctx, and signed deliveries from ctx.

The journal is a file of JSON lines: {"message": ...} was accepted from the channel, {"posted": id} was stored or
refused by ctx, {"shown": id} is a delivery that was shown. One adapter uses a journal at a time.
"""

import hashlib
import hmac
import http.client
import http.server
import json
import os
import queue
import sys
import threading
import time
import urllib.error
import urllib.request
import uuid

REPLAY_WINDOW_S = 300
BODY_MAX_BYTES = 4 << 20
SHOWN_MAX = 10_000  # ids that the journal keeps
RETRY_MAX_S = 5
REFUSED = (400, 403, 409, 413, 415, 422)  # another attempt would get the same answer
DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}))


class Channel:
    """`show(delivery)` returns when a delivery is shown; if it fails, ctx delivers it again later."""

    def __init__(self, ctx, listen, secret, journal, show):
        self.url, self.secret, self.show = ctx.rstrip("/") + "/api/inbound", secret.encode(), show
        self.waiting, self.lock = queue.Queue(), threading.Lock()
        entries = read_journal(journal)
        done = {entry["posted"] for entry in entries if "posted" in entry}
        unposted = [e for e in entries if "message" in e and e["message"]["message_id"] not in done]
        shown = [entry for entry in entries if "shown" in entry][-SHOWN_MAX:]
        self.shown = {entry["shown"] for entry in shown}
        with open(journal + ".new", "w") as new:
            new.writelines(json.dumps(entry) + "\n" for entry in shown + unposted)
            os.fsync(new.fileno())
        os.replace(journal + ".new", journal)
        self.journal = os.open(journal, os.O_WRONLY | os.O_APPEND)
        for entry in unposted:
            self.waiting.put(entry["message"])
        host, _, port = listen.rpartition(":")
        self.server = http.server.ThreadingHTTPServer((host, int(port)), handler(self))
        print(f"deliveries: http://{host}:{self.server.server_port}/", file=sys.stderr, flush=True)
        for work in (self.post_waiting, self.server.serve_forever):
            threading.Thread(target=work, daemon=True).start()

    def write(self, entry):
        os.write(self.journal, (json.dumps(entry) + "\n").encode())
        os.fsync(self.journal)

    def send(self, **message):
        """Accepts a message. It is posted until ctx has stored it, even after a crash, always with the same id."""
        message["message_id"] = uuid.uuid4().hex
        self.write({"message": message})
        self.waiting.put(message)

    def post_waiting(self):
        while True:
            message, pause_s = self.waiting.get(), 0.1
            while not self.post(message):
                time.sleep(pause_s)
                pause_s = min(2 * pause_s, RETRY_MAX_S)
            self.write({"posted": message["message_id"]})

    def post(self, message):
        """Whether the message is done with: stored, or refused for good."""
        headers = {"Content-Type": "application/json"}
        if token := os.environ.get("CTX_TOKEN"):
            headers["Authorization"] = "Bearer " + token
        request = urllib.request.Request(self.url, json.dumps(message).encode(), headers)
        try:
            with DIRECT.open(request, timeout=30):
                return True
        except urllib.error.HTTPError as error:
            why = error.read(2000).decode(errors="replace")
            print(f"ctx: status {error.code}: {why}", file=sys.stderr, flush=True)
            return error.code in REFUSED
        except (OSError, http.client.HTTPException):
            return False  # ctx does not run, or ended before it answered

    def deliver(self, delivery):
        with self.lock:
            if delivery["id"] not in self.shown:
                self.show(delivery)
                self.write({"shown": delivery["id"]})
                self.shown.add(delivery["id"])

    def is_signed(self, headers, body):
        timestamp, signature = headers.get("X-Ctx-Timestamp", ""), headers.get("X-Ctx-Signature", "")
        signed = hmac.new(self.secret, timestamp.encode() + b"." + body, hashlib.sha256).hexdigest()
        same = hmac.compare_digest(("v1=" + signed).encode(), signature.encode())
        return same and abs(time.time() - int(timestamp)) <= REPLAY_WINDOW_S


def read_journal(path):
    entries = []
    if os.path.exists(path):
        with open(path, errors="replace") as lines:
            for line in lines:
                try:
                    entries.append(json.loads(line))
                except ValueError:
                    pass  # a line that a crash cut off
    return entries


def handler(channel):
    class Deliveries(http.server.BaseHTTPRequestHandler):
        timeout = 30  # of a connection without data

        def do_POST(self):
            length = int(self.headers.get("Content-Length", 0))
            body = self.rfile.read(length) if 0 < length <= BODY_MAX_BYTES else b""
            if not channel.is_signed(self.headers, body):
                return self.respond(401, "the signature is wrong or too old")
            try:
                channel.deliver(json.loads(body))
            except Exception as error:  # noqa: BLE001
                # Whatever failed: ctx keeps the text as the delivery's error and delivers it again.
                return self.respond(503, f"not shown: {error}")
            self.respond(200, "")

        def respond(self, status, text):
            self.send_response(status)
            self.send_header("Content-Length", str(len(text.encode())))
            self.end_headers()
            self.wfile.write(text.encode())

        def log_message(self, *_):
            pass

    return Deliveries


def text_of(delivery):
    """The text for a person. A permission or a question is answered by a message with one of its options."""
    options = " | ".join(option["label"] for option in delivery.get("options", []))
    who = "" if delivery.get("may_answer", True) else " by a person with the right to approve"
    return delivery["text"] + (f"\n[answer{who}: {options}]" if options else "")
