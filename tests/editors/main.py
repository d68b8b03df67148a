#!/usr/bin/env python3
"""Drives ctx acp with clients that others wrote: main.py --ctx PROGRAM --agent PROGRAM [--only CLIENT,…] [--target DIR]

Installs the clients, runs every scenario with each of them, prints a table client × scenario, and checks what ctx sent
against the schema of the protocol. Exits with 1 if a cell failed. --agent is the example `scripted-agent` of ctx-providers, the agent
behind ctx.
"""

import argparse
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import time

import install

HERE = pathlib.Path(__file__).parent
CLIENTS = ["acpx", "typescript", "python", "rust"]
SECONDS_MAX = 120
WORDS = "m1: say one; run ls; say two; wait never"


class Cell:
    """A store, a working directory and a client."""

    def __init__(self, options, installed, client, scenario):
        self.client, self.installed, self.ctx = client, installed, options.ctx
        home = options.target / "runs" / f"{client}-{scenario}"
        shutil.rmtree(home, ignore_errors=True)
        self.work, self.logs = home / "work", options.target / "logs" / f"{client}-{scenario}"
        shutil.rmtree(self.logs, ignore_errors=True)
        for directory in (home / "data", home / "agent", self.work, self.logs):
            directory.mkdir(parents=True)
        agent = f'kind = "acp"\ncommand = ["{options.agent}"]\nenv = {{ AGENT_HOME = "{home}/agent", AGENT_HABITS = "" }}'
        config = f'[defaults]\nprovider = "agent"\n[providers.agent]\n{agent}\n'
        (home / "data" / "ctx.toml").write_text(config, encoding="utf-8")
        self.env = {
            "PATH": os.environ["PATH"],
            "HOME": str(home),
            "CTX": str(self.ctx),
            "CTX_DATA": str(home / "data"),
            "CTX_DISCOVERY_ENABLED": "false",
            "CTX_WIRE_LOGS": str(self.logs),
        }

    def command(self, *arguments):
        if self.client == "typescript":
            self.env["ACP_SDK"] = str(self.installed / "node_modules/@agentclientprotocol/sdk")
            program = ["node", HERE / "typescript_client.mjs"]
        elif self.client == "python":
            program = [self.installed / "bin" / "python", HERE / "python_client.py"]
        elif self.client == "rust":
            program = [self.installed]
        else:
            cli = self.installed / "node_modules/acpx/dist/cli.js"
            program = ["node", cli, "--agent", f"{self.ctx} acp", "--cwd", self.work, "--ttl", "5"]
        return [str(part) for part in [*program, *arguments]]

    def run(self, *arguments, codes=(0,)):
        """Runs the client to its end; its output."""
        done = subprocess.run(self.command(*arguments), env=self.env, cwd=self.work, capture_output=True, text=True, timeout=SECONDS_MAX, check=False)
        assert done.returncode in codes, f"{arguments}: {done.stdout[-500:]} {done.stderr[-1500:]}"
        return done.stdout

    def act(self, action, argument=None):
        """An action of our own clients; its document."""
        output = self.run(action, self.work, *([argument] if argument else []))
        return json.loads(output.splitlines()[-1])

    def start(self, *arguments):
        return subprocess.Popen(self.command(*arguments), env=self.env, cwd=self.work, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)

    def kill_ctx(self):
        """Kills the ctx acp of this cell with SIGKILL."""
        mark = f"CTX_DATA={self.env['CTX_DATA']}".encode()
        killed = 0
        for process in pathlib.Path("/proc").iterdir():
            try:
                command = (process / "cmdline").read_bytes().split(b"\0")
                if command[1:2] == [b"acp"] and mark in (process / "environ").read_bytes().split(b"\0"):
                    os.kill(int(process.name), signal.SIGKILL)
                    killed += 1
            except (OSError, ValueError):
                continue
        assert killed, "no ctx acp runs"


def new(cell):
    assert cell.act("new")["session"]


def prompt(cell):
    answer = cell.act("prompt", "m1: say hello")
    assert (answer["stop"], answer["text"]) == ("end_turn", "hello"), answer


def cancel(cell):
    answer = cell.act("cancel", "m1: say begun; wait never")
    assert (answer["stop"], answer["text"]) == ("cancelled", "begun"), answer


def permission(cell):
    answer = cell.act("permission", "m1: ask touch x; say after")
    assert (answer["stop"], answer["asked"]) == ("end_turn", 1) and answer["text"].endswith("after"), answer
    assert (cell.work / "effects").read_text(encoding="utf-8") == "touch x\n"


def load_after_kill(cell):
    client = cell.start("stream", cell.work, WORDS)
    session = json.loads(client.stdout.readline())["session"]
    cell.kill_ctx()
    client.kill()
    client.wait()
    loaded = cell.act("load", session)
    assert loaded["users"] == WORDS and loaded["text"].startswith("onetwo"), loaded


def listed(cell):
    made = {cell.act("new")["session"], cell.act("new")["session"]}
    assert set(cell.act("list")["sessions"]) == made


def fork(cell):
    source = cell.act("prompt", "m1: say hello")["session"]
    forked = cell.act("fork", source)
    assert forked["session"] != source and forked["text"] == "forked", forked


def read_until(client, part):
    """Reads the output of a client, which may not end with a line."""
    seen = ""
    while part not in seen:
        more = client.stdout.read(1)
        assert more, seen
        seen += more


def acpx_new(cell):
    assert len(cell.run("sessions", "new").strip()) == 26, "the id of a ctx session"


def acpx_prompt(cell):
    lines = [json.loads(line) for line in cell.run("--format", "json", "exec", "m1: say hello").splitlines()]
    assert lines[-1]["result"]["stopReason"] == "end_turn", lines[-1]
    assert any(line.get("params", {}).get("update", {}).get("content", {}).get("text") == "hello" for line in lines if "params" in line)


def acpx_cancel(cell):
    cell.run("sessions", "new")
    client = cell.start("prompt", "m1: say begun; wait never")
    read_until(client, "begun")
    cell.run("cancel")
    assert "[done] cancelled" in client.communicate(timeout=SECONDS_MAX)[0]


def acpx_permission(cell):
    cell.run("--approve-all", "exec", "m1: ask touch x; say after")
    assert (cell.work / "effects").read_text(encoding="utf-8") == "touch x\n"
    # acpx reports a permission that it denied by its exit code.
    cell.run("--deny-all", "exec", "m1: ask touch y; say after", codes=(5,))
    assert (cell.work / "effects").read_text(encoding="utf-8") == "touch x\n"


def acpx_load_after_kill(cell):
    """acpx continues its session; the history is in ctx."""
    cell.run("sessions", "new")
    client = cell.start("prompt", WORDS)
    read_until(client, "two")
    cell.kill_ctx()
    client.kill()
    client.wait()
    assert "three" in cell.run("prompt", "m2: say three")
    session = json.loads(cell.run("--format", "json", "sessions", "list"))["sessions"][0]["sessionId"]
    show = [str(cell.ctx), "session", "show", session]
    shown = subprocess.run(show, env=cell.env, capture_output=True, text=True, check=True).stdout
    places = [shown.index(word) for word in ("\none\n", "\ntwo\n", "\nthree\n")]
    assert places == sorted(places)


def acpx_list(cell):
    cell.run("exec", "m1: say hello")
    sessions = json.loads(cell.run("--format", "json", "sessions", "list"))["sessions"]
    assert [session["cwd"] for session in sessions] == [str(cell.work)], sessions


SCENARIOS = {
    "new": (new, acpx_new),
    "prompt": (prompt, acpx_prompt),
    "cancel": (cancel, acpx_cancel),
    "permission": (permission, acpx_permission),
    "load after kill -9": (load_after_kill, acpx_load_after_kill),
    "list": (listed, acpx_list),
    "fork": (fork, None),
}


def run_cell(options, installed, client, name):
    """The entry of the table."""
    scenario = SCENARIOS[name][client == "acpx"]
    if scenario is None:
        return "not offered by the client", True
    started = time.monotonic()
    cell = Cell(options, installed, client, name.split()[0])
    try:
        scenario(cell)
    except Exception as error:  # pylint: disable=broad-except
        print(f"{client}, {name}: {type(error).__name__}: {error}", file=sys.stderr, flush=True)
        return "FAILED", False
    return f"{time.monotonic() - started:.1f} s", True


def arguments():
    parser = argparse.ArgumentParser(description="Drive ctx acp with real clients.")
    parser.add_argument("--ctx", required=True, type=pathlib.Path, help="the ctx program to test")
    parser.add_argument("--agent", required=True, type=pathlib.Path, help="the agent behind ctx")
    parser.add_argument("--only", help="clients, separated by commas")
    parser.add_argument("--target", type=pathlib.Path, default=pathlib.Path("target/editors"))
    options = parser.parse_args()
    for name in ("ctx", "agent", "target"):
        setattr(options, name, getattr(options, name).resolve())
    options.clients = options.only.split(",") if options.only else CLIENTS
    wrong = [client for client in options.clients if client not in CLIENTS]
    if wrong:
        parser.error(f"unknown: {', '.join(wrong)}; known: {', '.join(CLIENTS)}")
    return options


def check_schema(options):
    """Messages of all cells against the schema that comes with the SDK for TypeScript."""
    python = options.installed["python"] / "bin" / "python"
    subprocess.run([python, "-m", "pip", "install", "--quiet", "jsonschema==4.26.0"], check=True, timeout=SECONDS_MAX)
    sdk = options.installed["typescript"] / "node_modules/@agentclientprotocol/sdk"
    logs = sorted((options.target / "logs").glob("*/editor-*.log"))
    command = [python, HERE / "schema_check.py", sdk / "schema/v1/schema.unstable.json", *logs]
    return subprocess.run([str(part) for part in command], check=False).returncode == 0


def main():
    options = arguments()
    shutil.rmtree(options.target / "logs", ignore_errors=True)
    options.installed = {client: install.install(options.target, client) for client in options.clients}
    table, all_passed = [["client", *SCENARIOS]], True
    for client, installed in options.installed.items():
        row = [f"{client} {install.VERSIONS[client].replace('==', '@').rsplit('@', 1)[1]}"]
        for name in SCENARIOS:
            entry, passed = run_cell(options, installed, client, name)
            row.append(entry)
            all_passed = all_passed and passed
        table.append(row)
    table.insert(1, ["---"] * len(table[0]))
    print("\n".join("| " + " | ".join(row) + " |" for row in table), flush=True)
    if {"python", "typescript"} <= set(options.installed):
        all_passed = check_schema(options) and all_passed
    entries = [entry for row in table[2:] for entry in row[1:]]
    print(f"{sum(entry.endswith(' s') for entry in entries)} passed, {entries.count('FAILED')} failed")
    return 0 if all_passed else 1


if __name__ == "__main__":
    sys.exit(main())
