"""A `ctx serve` process and its HTTP client."""

import http.client
import json
import os
import signal
import socket
import subprocess
import threading
import time
import uuid

# Timeout of every wait; includes the slow start of an agent on a busy system.
TIMEOUT = 90.0
POLL_INTERVAL = 0.03


class Ctx:
    """A data directory and a server on it that can be stopped, killed and restarted."""

    def __init__(self, program, place, config, environment=None):
        self.program, self.place = program, place
        self.data, self.log = place / "data", place / "ctx.log"
        self.data.mkdir(parents=True)
        (place / "user").mkdir()
        (self.data / "ctx.toml").write_text(config, encoding="utf-8")
        self.environment = {"HOME": str(place / "user"), "PATH": os.environ["PATH"], "CTX_LOG": "info", **(environment or {})}
        self.child = self.address = None

    def start(self):
        command = [str(self.program), "--data", str(self.data), "serve", "--listen", "127.0.0.1:0", "--json"]
        with open(self.log, "ab") as errors:
            self.child = subprocess.Popen(
                command, cwd=self.place, env=self.environment, stdout=subprocess.PIPE, stderr=errors, start_new_session=True
            )
        line = self.child.stdout.readline()
        if not line:
            raise AssertionError(f"ctx did not start: {self.log.read_text(errors='replace')[-2000:]}")
        self.address = json.loads(line)["address"].removeprefix("http://").rstrip("/")
        # Later output is not needed, but it must not fill the pipe.
        threading.Thread(target=self.child.stdout.read, daemon=True).start()
        return self

    def stop(self, seconds=30):
        """Sends SIGTERM and asserts a successful exit."""
        self.child.send_signal(signal.SIGTERM)
        try:
            status = self.child.wait(seconds)
        except subprocess.TimeoutExpired as late:
            self.kill()
            raise AssertionError(f"ctx did not end in {seconds} s after SIGTERM") from late
        if status != 0:
            raise AssertionError(f"ctx ended with {status} after SIGTERM")

    def kill(self):
        """Sends SIGKILL to ctx only."""
        if self.child and self.child.poll() is None:
            self.child.kill()
            self.child.wait(10)

    def alive(self):
        return self.child is not None and self.child.poll() is None

    def client(self):
        return Client(self.address)


class ErrorResponse(AssertionError):
    """A response with an error status."""

    def __init__(self, method, path, status, body):
        super().__init__(f"{method} {path} answered {status}: {json.dumps(body)[:600]}")
        self.status, self.body = status, body


class Client:
    """An HTTP client; the server treats each instance as a separate client."""

    def __init__(self, address):
        self.address = address

    def request(self, method, path, body=None, headers=None):
        connection = http.client.HTTPConnection(self.address, timeout=60)
        try:
            raw = None if body is None else json.dumps(body)
            given = {"Content-Type": "application/json"} if raw is not None else {}
            connection.request(method, path, raw, {**given, **(headers or {})})
            answer = connection.getresponse()
            text = answer.read()
            value = json.loads(text) if text else None
        finally:
            connection.close()
        if answer.status >= 300:
            raise ErrorResponse(method, path, answer.status, value)
        return value

    def get(self, path):
        return self.request("GET", path)

    def post(self, path, body=None, headers=None):
        return self.request("POST", path, {} if body is None else body, headers)

    def create(self, **fields):
        return Session(self, self.post("/api/sessions", fields)["id"])


class Session:
    """A session as seen by a client."""

    def __init__(self, client, name):
        self.client, self.name = client, name
        self.path = f"/api/sessions/{name}"

    def by(self, client):
        """The same session for another client."""
        return Session(client, self.name)

    def info(self):
        return self.client.get(self.path)

    def say(self, text, **fields):
        return self.client.post(f"{self.path}/messages", {"text": text, **fields}, {"Idempotency-Key": uuid.uuid4().hex})

    def messages(self):
        return self.client.get(f"{self.path}/messages?limit=1000")["messages"]

    def turns(self):
        return self.client.get(f"{self.path}/turns?limit=1000")["turns"]

    def cancel(self):
        return self.client.post(f"{self.path}/cancel")

    def resume(self, suspension, choice):
        return self.client.post(f"{self.path}/resume", {"suspension_id": suspension, "choice": choice})

    def fork(self, **fields):
        return Session(self.client, self.client.post(f"{self.path}/fork", fields)["id"])

    def wait(self, what, holds, seconds=TIMEOUT):
        """Waits until a condition on the session document holds and returns the document."""
        end = time.monotonic() + seconds
        while True:
            info = self.info()
            if holds(info):
                return info
            if time.monotonic() > end:
                brief = {key: info.get(key) for key in ("state", "status", "run", "suspension", "pending_prompt", "waiting", "turn_count")}
                raise AssertionError(f"not within {seconds:.0f} s: {what}; the session is {json.dumps(brief)[:700]}")
            time.sleep(POLL_INTERVAL)

    def idle(self, seconds=TIMEOUT):
        return self.wait("the session is idle", lambda info: info["state"] == "idle" and not info["waiting"], seconds)

    def suspended(self, seconds=TIMEOUT):
        def holds(info):
            if info["state"] == "idle" and not info["waiting"]:
                raise AssertionError(f"the run ended without a suspension: {self.last_words()}")
            return info["state"] == "suspended" and info["suspension"]

        return self.wait("the session is suspended", holds, seconds)["suspension"]

    def last_words(self):
        return json.dumps([each["content"] for each in self.messages()[-2:]])[:700]

    def follow(self):
        return Follower(self)


class Follower:
    """Reads the event stream of a session and records the arrival time of each event."""

    def __init__(self, session):
        self.events, self.lock, self.ended = [], threading.Condition(), False
        self.connection = http.client.HTTPConnection(session.client.address, timeout=120)
        self.connection.request("GET", f"{session.path}/events")
        self.socket = self.connection.sock
        self.answer = self.connection.getresponse()
        threading.Thread(target=self.read, daemon=True).start()

    def read(self):
        name, data = None, []
        try:
            while line := self.answer.readline():
                line = line.decode("utf-8").rstrip("\r\n")
                if line.startswith("event:"):
                    name = line[6:].strip()
                elif line.startswith("data:"):
                    data.append(line[5:].strip())
                elif not line and data:
                    with self.lock:
                        self.events.append((time.monotonic(), name, json.loads("\n".join(data))))
                        self.lock.notify_all()
                    name, data = None, []
        except (OSError, ValueError, AttributeError, http.client.HTTPException):
            pass
        with self.lock:
            self.ended = True
            self.lock.notify_all()

    def wait_for_text(self, words, seconds=TIMEOUT):
        """Waits until the streamed text contains `words`."""
        end = time.monotonic() + seconds
        with self.lock:
            while words not in "".join(data.get("text", "") for _, name, data in self.events if name == "message.delta"):
                left = end - time.monotonic()
                if left <= 0 or self.ended:
                    seen = [name for _, name, _ in self.events][-12:]
                    raise AssertionError(f"the text {words!r} did not arrive within {seconds:.0f} s; the last events were {seen}")
                self.lock.wait(left)

    def close(self):
        # close() waits for the reader, which waits for the next heartbeat: shut the socket down first.
        try:
            self.socket.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
        self.connection.close()
