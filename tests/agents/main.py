#!/usr/bin/env python3
"""Drives real agents through a real ctx: main.py --ctx PROGRAM [--only AGENT,…] [--cell NAME,…] [--target DIR]

Installs the agents from npm, then runs everything without a network but loopback where the system lets it. Prints a table
agent × cell; exits with 1 when a cell failed. Every wire log stays under TARGET/logs.
"""

import argparse
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).parent))

import agents as known
import cells
import install
import scenarios
from bench import Bench
from model import Model
from report import Report, broke

ISOLATED = "CTX_AGENTS_ISOLATED"


class Suite:
    """What all cells share."""

    def __init__(self, options, installed):
        self.ctx = pathlib.Path(options.ctx).resolve()
        self.logs, self.runs = options.target / "logs", options.target / "runs"
        self.installed, self.model = installed, Model()


def arguments():
    parser = argparse.ArgumentParser(description="Drives real agents through a real ctx.")
    parser.add_argument("--ctx", required=True, help="the program under test")
    parser.add_argument("--only", help="agents, with commas between them")
    parser.add_argument("--cell", help="cells or scenarios, with commas between them")
    parser.add_argument("--target", type=pathlib.Path, default=pathlib.Path("target/agents"), help="where agents, runs and logs go")
    options = parser.parse_args()
    options.target = options.target.resolve()
    names = [agent.name for agent in known.ALL]
    options.agents = options.only.split(",") if options.only else names
    options.cells = options.cell.split(",") if options.cell else [*cells.ALL, *scenarios.ALL]
    for given, allowed in ((options.agents, names), (options.cells, [*cells.ALL, *scenarios.ALL])):
        wrong = [each for each in given if each not in allowed]
        if wrong:
            parser.error(f"{', '.join(wrong)}: there are {', '.join(allowed)}")
    return options


def isolate():
    """Starts this program again where only loopback exists, if that is possible: as root, or as root of a namespace of one's own."""
    if os.environ.get(ISOLATED):
        return
    if shutil.which("unshare") and shutil.which("ip"):
        for more in ([], ["--map-root-user"]):
            command = ["unshare", *more, "--net", "--kill-child=TERM", "--", "sh", "-c", 'ip link set lo up && exec "$@"', "sh"]
            if subprocess.run([*command, "true"], capture_output=True, check=False).returncode == 0:
                os.environ[ISOLATED] = "yes"
                os.execvp("unshare", [*command, sys.executable, *sys.argv])
    print("no network namespace here: the agents are told to stay on loopback, but could leave it", flush=True)


def run(suite, report, agent, cell, act, direct=("openai",)):
    """One cell; whatever it raises is its failure."""
    began = time.monotonic()
    bench = None
    try:
        bench = Bench(suite, [agent], cell, direct, cells.CLOCKS.get(cell))
        note = act(bench, agent)
        bench.close()
        report.passed(agent.name, cell, time.monotonic() - began, note)
    except Exception as error:  # a cell that breaks is a failed cell, and the next one runs
        report.failed(agent.name, cell, time.monotonic() - began, broke(error), bench.logs if bench else None)
    finally:
        if bench:
            bench.end()


def main():
    options = arguments()
    rows = [row for row in scenarios.rows() if row[0] in options.cells and row[1].name in options.agents]
    installed = install.everything(options.target / "npm", sorted(options.agents))
    isolate()
    # Told to stop, it still ends what it started.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    suite, report = Suite(options, installed), Report()
    chosen = [cell for cell in cells.ALL if cell in options.cells]
    for agent in known.ALL:
        if agent.name not in options.agents:
            continue
        for cell in chosen:
            if cell in agent.impossible:
                report.impossible(agent.name, cell, agent.impossible[cell])
            else:
                run(suite, report, agent, cell, cells.ALL[cell])
    for name, agent, direct, act in rows:
        run(suite, report, agent, name, act, direct)
    report.table(chosen)
    sys.exit(1 if report.failures else 0)


main()
