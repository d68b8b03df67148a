"""The list of sessions that an agent shows on a terminal."""

import fcntl
import json
import os
import pty
import re
import select
import signal
import struct
import termios
import time

from agents import KEY

SECONDS_MAX = 30
# Escape sequences of the terminal, and the questions that a program asks it.
ESCAPES = re.compile(rb"\x1b\[[0-9;?<>=]*[a-zA-Z]|\x1b\][^\x07]*\x07|\x1b[()][A-Z0-9]|\x1b.")
ANSWERS = {b"\x1b[6n": b"\x1b[1;1R", b"\x1b[c": b"\x1b[?62c"}


def accept_first_start(home, work):
    """Answers the questions that Claude Code asks at its first start on a terminal."""
    path = home / ".claude.json"
    settings = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    settings |= {"hasCompletedOnboarding": True, "theme": "dark", "customApiKeyResponses": {"approved": [KEY[-20:]], "rejected": []}}
    settings.setdefault("projects", {})[str(work)] = {"hasTrustDialogAccepted": True, "hasCompletedProjectOnboarding": True}
    path.write_text(json.dumps(settings), encoding="utf-8")


def shows(command, work, environment, wanted):
    """Starts a program on a terminal and returns its output up to the wanted text."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(work)
        os.execvpe(command[0], command, {**environment, "TERM": "xterm-256color"})
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 140, 0, 0))
    output, end = b"", time.monotonic() + SECONDS_MAX
    try:
        while time.monotonic() < end:
            if not select.select([terminal], [], [], 0.5)[0]:
                continue
            part = os.read(terminal, 65536)
            output += part
            for question, answer in ANSWERS.items():
                if question in part:
                    os.write(terminal, answer)
            text = re.sub(rb"\s+", b" ", ESCAPES.sub(b" ", output)).decode(errors="replace")
            if wanted in text:
                return text
    except OSError:
        pass  # The program closed the terminal.
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        os.close(terminal)
    return re.sub(rb"\s+", b" ", ESCAPES.sub(b" ", output)).decode(errors="replace")
