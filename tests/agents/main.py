#!/usr/bin/env python3
"""Tests real agents with a real ctx: main.py --ctx PROGRAM [--only AGENT,…] [--cell NAME,…] [--tool TOOL,…] [--target DIR]

Installs the agents from npm, then runs the cells, if possible in a network namespace with loopback only. Prints a
table agent × cell, and for the cell `continue` a table tool × provider, and exits with 1 if a cell failed. The protocol logs remain under TARGET/logs.
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
import continue_cells
import export_cells
import hook_cells
import install
import scenarios
import tool_sessions
from cell_environment import CellEnvironment
from fake_model import Model
from report import Report, describe_error, total

ISOLATED = "CTX_AGENTS_ISOLATED"


class Suite:
    """State that all cells share."""

    def __init__(self, options, installed):
        self.ctx = pathlib.Path(options.ctx).resolve()
        self.logs, self.runs = options.target / "logs", options.target / "runs"
        self.installed, self.model = installed, Model()


def arguments():
    parser = argparse.ArgumentParser(description="Test real agents with a real ctx.")
    parser.add_argument("--ctx", required=True, help="the ctx program to test")
    parser.add_argument("--only", help="agents, and model APIs of the cell `continue`, separated by commas")
    parser.add_argument("--cell", help="cells or scenarios, separated by commas")
    parser.add_argument("--tool", help="tools of the cell `continue`, separated by commas")
    parser.add_argument("--target", type=pathlib.Path, default=pathlib.Path("target/agents"), help="directory of agents, runs and logs")
    options = parser.parse_args()
    options.target = options.target.resolve()
    names, all_cells = [agent.name for agent in known.ALL], [*cells.ALL, *scenarios.ALL, continue_cells.NAME]
    options.only = options.only.split(",") if options.only else [*names, *continue_cells.DIRECT]
    options.agents = [name for name in options.only if name in names]
    options.cells = options.cell.split(",") if options.cell else all_cells
    options.tools = options.tool.split(",") if options.tool else list(tool_sessions.ALL)
    given_and_allowed = (
        (options.only, [*names, *continue_cells.DIRECT]),
        (options.cells, all_cells),
        (options.tools, list(tool_sessions.ALL)),
    )
    for given, allowed in given_and_allowed:
        wrong = [each for each in given if each not in allowed]
        if wrong:
            parser.error(f"unknown: {', '.join(wrong)}; known: {', '.join(allowed)}")
    return options


def isolate():
    """Restarts this program in a network namespace with loopback only, as root or as root of a user namespace."""
    if os.environ.get(ISOLATED):
        return
    if shutil.which("unshare") and shutil.which("ip"):
        for more in ([], ["--map-root-user"]):
            command = ["unshare", *more, "--net", "--kill-child=TERM", "--", "sh", "-c", 'ip link set lo up && exec "$@"', "sh"]
            if subprocess.run([*command, "true"], capture_output=True, check=False).returncode == 0:
                os.environ[ISOLATED] = "yes"
                os.execvp("unshare", [*command, sys.executable, *sys.argv])
    print("no network namespace: the agents are configured for loopback, but the network is reachable", flush=True)


def run(suite, report, agent, cell, cell_function, direct=("openai",)):
    """Runs one cell of an agent."""
    open_environment = lambda: CellEnvironment(suite, [agent], cell, direct, cells.CLOCKS.get(cell))
    attempt(report, agent.name, cell, open_environment, lambda bench: cell_function(bench, agent))


def attempt(report, row, column, open_environment, act):
    """Runs one cell and reports it. Any exception is a failure of the cell."""
    began = time.monotonic()
    bench = None
    try:
        bench = open_environment()
        note = act(bench)
        bench.close()
        report.passed(row, column, time.monotonic() - began, note)
    except Exception as error:  # the next cell must run after any error
        report.failed(row, column, time.monotonic() - began, describe_error(error), bench.logs if bench else None)
    finally:
        if bench:
            bench.end()


def run_matrix(suite, report, options):
    """Runs the chosen cells tool × provider."""
    for tool, provider in continue_cells.rows(options.only, options.tools):
        attempt(
            report,
            tool,
            provider,
            lambda tool=tool, provider=provider: continue_cells.environment(suite, tool, provider),
            lambda bench, tool=tool, provider=provider: continue_cells.continue_session(bench, tool, provider),
        )


def main():
    options = arguments()
    rows = [row for row in scenarios.rows() if row[0] in options.cells and row[1].name in options.agents]
    more = hook_cells.packages(options.agents) if "hooks" in options.cells else []
    more += export_cells.packages(options.agents) if {"export", "export-foreign"} & set(options.cells) else []
    installed = install.install_all(options.target / "npm", [*sorted(options.agents), *sorted(set(more))])
    isolate()
    # On SIGTERM the `finally` blocks must still end all processes.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    suite, report = Suite(options, installed), Report()
    chosen = [cell for cell in cells.ALL if cell in options.cells]
    for agent in known.ALL:
        if agent.name not in options.agents:
            continue
        for cell in chosen:
            if cell in agent.unsupported:
                report.unsupported(agent.name, cell, agent.unsupported[cell])
            else:
                run(suite, report, agent, cell, cells.ALL[cell])
    for name, agent, direct, cell_function in rows:
        run(suite, report, agent, name, cell_function, direct)
    matrix = Report()
    if continue_cells.NAME in options.cells:
        run_matrix(suite, matrix, options)
    report.table(chosen)
    matrix.grid("session of", continue_cells.PROVIDERS)
    total(report, matrix)
    sys.exit(1 if report.failures or matrix.failures else 0)


main()
