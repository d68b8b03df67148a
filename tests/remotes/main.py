#!/usr/bin/env python3
"""Push and pull over a real sshd on loopback: time and bytes of 1,000 sessions, and 50 kills.

    tests/remotes/main.py --ctx PATH [--sessions N] [--kills N]

Needs openssh-server. Everything is in a temporary directory; every process is ended.
"""

import argparse
import json
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

BYTES_MAX = 100_000
SECONDS_MAX = 1.0


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


class Sshd:
    """An sshd with a host key and an authorized key of its own."""

    def __init__(self, root, ctx):
        self.root, self.port = root, free_port()
        for name in ("host", "user"):
            subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", root / name], check=True)
        shutil.copy(root / "user.pub", root / "authorized_keys")
        (root / "authorized_keys").chmod(0o600)
        os.makedirs("/run/sshd", exist_ok=True)
        (root / "sshd_config").write_text(
            f"ListenAddress 127.0.0.1:{self.port}\nHostKey {root}/host\n"
            f"AuthorizedKeysFile {root}/authorized_keys\nStrictModes no\nUsePAM no\n"
            f"PasswordAuthentication no\nPidFile none\nSetEnv PATH={ctx.parent}:/usr/bin:/bin\n"
        )
        self.log = open(root / "sshd.log", "w")
        self.process = subprocess.Popen(
            ["/usr/sbin/sshd", "-D", "-e", "-f", root / "sshd_config"], stderr=self.log
        )
        for _ in range(200):
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", self.port)) == 0:
                    return
            time.sleep(0.02)
        sys.exit(f"sshd did not start: {(root / 'sshd.log').read_text()}")

    def command(self):
        return (
            f"ssh -F none -i {self.root}/user -o StrictHostKeyChecking=no -o BatchMode=yes "
            f"-o UserKnownHostsFile={self.root}/known -o LogLevel=ERROR"
        )

    def end(self):
        self.process.terminate()
        self.process.wait()
        self.log.close()


class Machine:
    def __init__(self, ctx, data, ssh):
        self.ctx, self.data = ctx, data
        self.env = {
            "HOME": str(data.parent), "PATH": os.environ["PATH"], "CTX_DATA": str(data),
            "CTX_DISCOVERY_ENABLED": "false", "CTX_SSH": ssh,
        }

    def start(self, *arguments):
        return subprocess.Popen(
            [self.ctx, "--json", *arguments], env=self.env, cwd=self.data.parent,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True,
        )

    def run(self, *arguments):
        out, err = (process := self.start(*arguments)).communicate()
        if process.returncode != 0:
            sys.exit(f"ctx {' '.join(arguments)}: {err.decode()}")
        return json.loads(out)

    def timed(self, *arguments):
        began = time.monotonic()
        report = self.run(*arguments)
        return report, time.monotonic() - began

    def verify(self):
        report = self.run("verify")
        if report["ok"] is not True:
            sys.exit(f"the store in {self.data} does not verify: {report}")


def write_sources(directory, count):
    """Small conversations as JSON Lines, one file each."""
    directory.mkdir()
    draw = random.Random(19)
    for n in range(count):
        lines = []
        for turn in range(draw.randint(1, 12)):
            words = " ".join(draw.choice("alpha beta gamma delta epsilon".split()) for _ in range(60))
            lines.append(json.dumps({"role": "user", "content": f"Question {turn} of {n}: {words}"}))
            output = " ".join(f"{draw.getrandbits(64):x}" for _ in range(draw.randint(5, 200)))
            lines.append(json.dumps({"role": "assistant", "content": f"Answer {turn}: {output}"}))
        (directory / f"talk-{n}.jsonl").write_text("\n".join(lines) + "\n")


def kill_many(machine, verb, kills, seconds, draw):
    """Kills runs of a verb at random moments; returns how many were still running."""
    hit = 0
    for _ in range(kills):
        process = machine.start(verb)
        time.sleep(draw.uniform(0, seconds))
        hit += process.poll() is None
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        process.communicate()
    return hit


def show(what, report, seconds):
    moved = len(report["pushed"]) + len(report["pulled"])
    print(
        f"{what:<34} {moved:>5} sessions {seconds:7.2f} s "
        f"{report['bytes_sent']:>10} B sent {report['bytes_received']:>10} B received", flush=True,
    )


def main():
    options = argparse.ArgumentParser()
    options.add_argument("--ctx", required=True, type=lambda path: Path(path).resolve())
    options.add_argument("--sessions", type=int, default=1000)
    options.add_argument("--kills", type=int, default=50)
    options = options.parse_args()
    failures = []
    with tempfile.TemporaryDirectory() as temporary:
        root = Path(temporary)
        (root / "ssh").mkdir()
        sshd = Sshd(root / "ssh", options.ctx)
        try:
            run(options, root, sshd, failures)
        finally:
            sshd.end()
    print("failed: " + "; ".join(failures) if failures else "ok")
    sys.exit(1 if failures else 0)


def run(options, root, sshd, failures):
    ssh = sshd.command()
    homes = {name: root / name for name in ("here", "there", "third", "killed", "fourth")}
    for home in homes.values():
        home.mkdir()
    machines = {name: Machine(options.ctx, home / "data", ssh) for name, home in homes.items()}
    here, there, third = machines["here"], machines["there"], machines["third"]
    write_sources(root / "sources", options.sessions)
    here.run("import", "--from", "jsonl", str(root / "sources"))

    def address(name):
        return f"ssh://127.0.0.1:{sshd.port}{homes[name]}/data"

    here.run("remote", "add", "origin", address("there"))
    third.run("remote", "add", "origin", address("there"))
    report, seconds = here.timed("push")
    show("push", report, seconds)
    whole = seconds
    again, seconds = here.timed("push")
    show("push again, nothing new", again, seconds)
    if not again["up_to_date"] or again["bytes_sent"] >= BYTES_MAX or seconds >= SECONDS_MAX:
        failures.append(f"the second push took {seconds:.2f} s and sent {again['bytes_sent']} B")
    report, seconds = third.timed("pull")
    show("pull", report, seconds)
    report, seconds = third.timed("pull")
    show("pull again, nothing new", report, seconds)
    for machine in (here, there, third):
        machine.verify()

    draw = random.Random(50)
    here.run("remote", "remove", "origin")
    here.run("remote", "add", "origin", address("killed"))
    hit = kill_many(here, "push", options.kills, whole, draw)
    report, seconds = here.timed("push")
    show(f"push after {hit} of {options.kills} killed", report, seconds)
    fourth = machines["fourth"]
    fourth.run("remote", "add", "origin", address("killed"))
    hit = kill_many(fourth, "pull", options.kills, whole, draw)
    report, seconds = fourth.timed("pull")
    show(f"pull after {hit} of {options.kills} killed", report, seconds)
    for machine in (here, machines["killed"], fourth):
        machine.verify()
    for machine in (here, fourth):
        if not machine.run("sync")["up_to_date"]:
            machine_report = machine.run("sync")
            if not machine_report["up_to_date"]:
                failures.append(f"not up to date after the kills: {machine_report}")


if __name__ == "__main__":
    main()
