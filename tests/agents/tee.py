"""tee.py LOG COMMAND…: runs an agent and writes down every line that goes in and comes out.

It stands between ctx and the agent and adds nothing: what closes on one side is closed on the other, and the agent's
exit code is its own.
"""

import json
import os
import subprocess
import sys
import threading
import time

LOCK = threading.Lock()


def note(log, direction, line, at=None):
    with LOCK:
        log.write(json.dumps({"at": at or time.time(), "dir": direction, "line": line}) + "\n")
        log.flush()


def pump(source, sink, log, direction):
    """Bytes go on as they come; whole lines are written down."""
    rest = b""
    while chunk := os.read(source, 65536):
        at = time.time()
        try:
            view = memoryview(chunk)
            while view:
                view = view[os.write(sink, view) :]
        except OSError:
            break
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            note(log, direction, line.decode("utf-8", "replace"), at)
    if rest:
        note(log, direction, rest.decode("utf-8", "replace"))
    os.close(sink)


def main():
    log = open(sys.argv[1], "a", encoding="utf-8")
    command = sys.argv[2:]
    child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    note(log, "start", " ".join(command))
    stdin = os.dup(child.stdin.fileno())
    child.stdin.close()
    threading.Thread(target=pump, args=(0, stdin, log, "in"), daemon=True).start()
    pump(child.stdout.fileno(), 1, log, "out")
    status = child.wait()
    note(log, "exit", str(status))
    sys.exit(status if status >= 0 else 128 - status)


main()
