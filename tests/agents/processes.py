"""Finds the processes of a cell: each agent has its own HOME, which its children inherit."""

import os
import pathlib
import signal
import time


def of_home(home):
    """Process id → command line of all processes with this HOME, without ctx itself and zombies."""
    wanted = f"HOME={home}".encode()
    found = {}
    for entry in pathlib.Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            if wanted not in (entry / "environ").read_bytes().split(b"\0"):
                continue
            words = (entry / "cmdline").read_bytes().split(b"\0")
            status = (entry / "stat").read_text()
        except OSError:
            continue
        if status.rsplit(")", 1)[1].split()[0] in "ZX":
            continue
        found[int(entry.name)] = b" ".join(words).decode("utf-8", "replace").strip()
    return found


def groups(pids):
    found = set()
    for pid in pids:
        try:
            found.add(os.getpgid(pid))
        except ProcessLookupError:
            pass
    return found


def kill(pids):
    """Sends SIGKILL to these processes and their process groups."""
    own = os.getpgid(0)
    for group in groups(pids) - {own}:
        try:
            os.killpg(group, signal.SIGKILL)
        except ProcessLookupError:
            pass
    kill_each(pids)


def kill_each(pids):
    """Sends SIGKILL to these processes only."""
    for pid in pids:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass


def parent(pid):
    try:
        return int(pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[1])
    except OSError:
        return 0


def below(found, program):
    """Those of the processes that are descendants of `program`, without the bridge processes of ctx."""
    wrappers = {pid for pid, line in found.items() if f"/{program}" in line and "wire_log.py" not in line and " guard " not in line}
    top = {pid for pid in wrappers if parent(pid) not in wrappers}
    return {pid for pid, line in found.items() if pid not in top and top & set(ancestors(pid)) and " bridge " not in line}


def ancestors(pid):
    while pid := parent(pid):
        yield pid


def wait_until_ended(home, seconds):
    """Waits until no process with this HOME runs. Returns those that still run after the timeout."""
    end = time.monotonic() + seconds
    while (left := of_home(home)) and time.monotonic() < end:
        time.sleep(0.05)
    return left


def resident_kib(pid):
    for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1])
    return 0
