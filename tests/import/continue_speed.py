"""Measures `ctx continue --json` in a HOME with many sessions of other tools.

    python3 tests/import/continue_speed.py --ctx target/release/ctx [--sessions 2000] [--imported] [--aim-ms 200]

The sessions are copies of the samples (`samples.py`) with new ids, the same number for each of eight tools,
about half of them in the working directory. The first run reads the beginning of each file, later runs only look at
sizes and times. With --imported all sessions are imported before. The exit code is 1 if the median of the
later runs is above the aim.
"""

import argparse
import json
import os
import pathlib
import shutil
import sqlite3
import statistics
import subprocess
import tempfile
import time

import database_samples
import samples
from peers import HOMES

# The id in each sample that is written in a file of its own.
IDS = {
    "claude-code": "11111111-2222-4333-8444-", "codex": "01a1e0ae-0000-7000-8000-",
    "gemini-cli": "0884ae92-0000-4000-8000-", "kimi-code": "00000000-0000-4000-8000-",
    "pi": "01a1e0ae-0000-7000-8000-", "qwen-code": "24d59f7a-0000-4000-8000-",
}


def copy_files(place, prefix, count, project):
    """Copies of the one session below `place`, each with an id of its own, some in another directory."""
    files = [file for file in place.rglob("*") if file.is_file()]
    for n in range(1, count):
        for file in files:
            text = file.read_text(encoding="utf-8")
            old = text[text.index(prefix):][:len(prefix) + 12] if prefix in text else None
            new = f"{prefix}{n + 1_000_000:012}"
            text = text.replace(old, new) if old else text
            path = str(file.relative_to(place))
            changed = path.replace(prefix + "000000000001", new).replace(prefix + "000000000002", new)
            changed = changed.replace(prefix + "555555555555", new)
            if changed == path:
                changed = str(pathlib.Path(path).with_name(f"session-2026-01-02T03-04-{n:08}.jsonl"))
            target = place / changed
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text.replace(samples.DIR, directory(project, n)), encoding="utf-8")
    for file in files:
        text = file.read_text(encoding="utf-8")
        file.write_text(text.replace(samples.DIR, directory(project, 0)), encoding="utf-8")


def directory(project, n):
    return str(project) if n % 2 == 0 else str(project) + "-other"


def copy_rows(path, tables, count, project):
    """Copies of the one session in a database: rows with another session, and other ids."""
    with sqlite3.connect(path) as database:
        for table, key, ids in tables:
            columns = [row[1] for row in database.execute(f"PRAGMA table_info({table})")]
            rows = [dict(zip(columns, row)) for row in database.execute(f"SELECT * FROM {table}").fetchall()]
            for n in range(1, count):
                for row in rows:
                    row = dict(row, **{name: f"{row[name]}_{n}" for name in [key, *ids]})
                    if table.startswith("session"):
                        row["working_dir" if "working_dir" in row else "directory"] = directory(project, n)
                    if table == "messages":
                        row["id"] = None
                    database_samples.insert(database, table, row)


def fill(home, count, project):
    for tool, place in HOMES.items():
        place = home / place
        samples.SAMPLES[tool](place)
        if tool in IDS:
            copy_files(place, IDS[tool], count, project)
        elif tool == "opencode":
            tables = [("session", "id", []), ("message", "session_id", ["id"]),
                      ("part", "session_id", ["id", "message_id"])]
            copy_rows(place / "opencode.db", tables, count, project)
        else:
            tables = [("sessions", "id", []), ("messages", "session_id", ["message_id"])]
            copy_rows(place / "sessions.db", tables, count, project)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ctx", default="target/release/ctx", help="the program")
    parser.add_argument("--sessions", type=int, default=2000)
    parser.add_argument("--runs", type=int, default=10, help="runs after the first")
    parser.add_argument("--imported", action="store_true", help="import all sessions before")
    parser.add_argument("--aim-ms", type=float, default=200)
    args = parser.parse_args()
    program, work = str(pathlib.Path(args.ctx).resolve()), pathlib.Path(tempfile.mkdtemp(prefix="ctx-continue-"))
    try:
        project = work / "project"
        project.mkdir()
        fill(work, args.sessions // len(HOMES), project)
        environment = {"PATH": os.environ["PATH"], "HOME": str(work), "CTX_DATA": str(work / "ctx")}

        def run(*arguments):
            started = time.monotonic()
            done = subprocess.run([program, *arguments], env=environment, cwd=project, capture_output=True)
            if done.returncode != 0:
                raise SystemExit(f"{arguments} failed: {done.stderr.decode()}")
            return (time.monotonic() - started) * 1000, json.loads(done.stdout)

        if args.imported:
            milliseconds, report = run("import", "--all", "--yes", "--json")
            print(f"import of {len(report['imported'])} sessions: {milliseconds:.0f} ms")
        first, _ = run("continue", "--json")
        later = [run("continue", "--json")[0] for _ in range(args.runs)]
        listed = {one["tool"] for one in run("continue", "--all", "--json", "-n", "100000")[1]["sessions"]}
        total = len(run("continue", "--all", "--json", "-n", "100000")[1]["sessions"])
        here = len(run("continue", "--json", "-n", "100000")[1]["sessions"])
        median = statistics.median(later)
        print(f"{total} sessions of {len(listed)} tools, {here} of the directory: first {first:.0f} ms, "
              f"then median {median:.0f} ms, {min(later):.0f} to {max(later):.0f} ms")
    finally:
        shutil.rmtree(work)
    raise SystemExit(0 if median <= args.aim_ms else 1)


if __name__ == "__main__":
    main()
