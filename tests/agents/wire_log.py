"""wire_log.py LOG COMMAND…: runs an agent and logs every line of its standard input and output.

It copies the streams unchanged, closes one side when the other is closed, and exits with the agent's exit code.
"""

import json
import os
import subprocess
import sys
import threading
import time

LOCK = threading.Lock()


def log_line(log, direction, line, at=None):
    with LOCK:
        log.write(json.dumps({"at": at or time.time(), "dir": direction, "line": line}) + "\n")
        log.flush()


def copy(source, sink, log, direction):
    """Copies bytes as they arrive; logs complete lines."""
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
            log_line(log, direction, line.decode("utf-8", "replace"), at)
    if rest:
        log_line(log, direction, rest.decode("utf-8", "replace"))
    os.close(sink)


def main():
    log = open(sys.argv[1], "a", encoding="utf-8")
    command = sys.argv[2:]
    child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    log_line(log, "start", " ".join(command))
    stdin = os.dup(child.stdin.fileno())
    child.stdin.close()
    threading.Thread(target=copy, args=(0, stdin, log, "in"), daemon=True).start()
    copy(child.stdout.fileno(), 1, log, "out")
    status = child.wait()
    log_line(log, "exit", str(status))
    sys.exit(status if status >= 0 else 128 - status)


main()
