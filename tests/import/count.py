"""Compares what session files contain with what `ctx import` keeps of them, tool by tool.

    python3 tests/import/count.py --ctx target/debug/ctx [--fixtures DIR] [--only TOOL] [--markdown]

The files are counted by readers of their own (`source_counts.py`). Sources are hand-written samples of all
tools (`samples.py`) and, with --fixtures, real files: one directory for each tool, such as `codex`,
`codex-exec` or `claude-code-print`. For each source, in an empty store:

1. The counts and the texts are equal in the files and in ctx.
2. A second import adds no turn and no session.
3. After two turns were added to the largest session, an import adds exactly two turns and no session.
4. Nothing below the source was changed by the imports.

The exit code is 0 only if all of this holds.
"""

import argparse
import collections
import hashlib
import pathlib
import shutil
import sys
import tempfile

import samples
import source_counts
from ctx_counts import Store

SUM = ("turns", "messages", "tool calls", "tool results", "reasoning", "branches", "images", "input tokens",
       "output tokens")


def tool_of(directory):
    """The tool of a directory of fixtures: `codex-exec` has files of Codex."""
    tools = [tool for tool in samples.SAMPLES if directory == tool or directory.startswith(tool + "-")]
    return max(tools, key=len) if tools else None


def fingerprint(path):
    """Names and contents of all files."""
    files = [file for file in sorted(path.rglob("*")) if file.is_file()]
    return {file: hashlib.sha256(file.read_bytes()).hexdigest() for file in files}


class Source:
    """One directory with sessions of a tool, and what was wrong with its import."""

    def __init__(self, name, tool, path, program, work):
        self.name, self.tool, self.path = name, tool, path
        self.store, self.faults = Store(program, work), []
        work.mkdir()

    def compare(self, when):
        """Compares files and store. Returns the sums over all sessions: in the files, in ctx."""
        found = {one.name: one for one in source_counts.read(self.tool, self.path)}
        kept = self.store.count(self.tool)
        for name in sorted(set(found) ^ set(kept)):
            self.faults.append(f"{when}: session {name} is only {'in the files' if name in found else 'in ctx'}")
        sums = [collections.Counter(), collections.Counter()]
        for total, sessions in zip(sums, (found, kept)):
            for session in sessions.values():
                total.update(session.counts())
        for name in sorted(set(found) & set(kept)):
            self.compare_session(when, found[name], kept[name])
        return sums

    def compare_session(self, when, found, kept):
        there, here = found.counts(), kept.counts()
        for what in there:
            if there[what] != here[what]:
                self.faults.append(f"{when}: {found.name}: {what}: {there[what]} in the files, {here[what]} in ctx")
        mine = kept.contents()
        for what, values in found.contents().items():
            lost = collections.Counter(values) - collections.Counter(mine[what])
            for value in lost:
                self.faults.append(f"{when}: {found.name}: not kept in {what}: {value[:100]!r}")

    def check(self):
        before = fingerprint(self.path)
        for one in self.store.import_from(self.tool, self.path):
            for problem in one["problems"]:
                self.faults.append(f"first import: {problem}")
        sums = self.compare("first import")
        turns, sessions = self.size()
        self.store.import_from(self.tool, self.path)
        if self.size() != (turns, sessions):
            self.faults.append(f"second import: {(turns, sessions)} turns and sessions became {self.size()}")
        if fingerprint(self.path) != before:
            self.faults.append("an import changed the source")
        samples.grow(self.tool, self.path)
        self.store.import_from(self.tool, self.path)
        if self.size() != (turns + 2, sessions):
            self.faults.append(f"after two more turns: {(turns, sessions)} turns and sessions became {self.size()}")
        self.compare("after two more turns")
        return sums

    def size(self):
        kept = self.store.count(self.tool).values()
        return sum(len(one.parents) for one in kept), sum(one.sessions for one in kept)


def sources(args, work):
    for tool, make in samples.SAMPLES.items():
        path = work / f"{tool}-sample"
        make(path)
        yield f"{tool} (sample)", tool, path
    fixtures = sorted(pathlib.Path(args.fixtures).iterdir()) if args.fixtures else []
    for directory in fixtures:
        tool = tool_of(directory.name)
        if tool:
            path = work / f"{directory.name}-fixture"
            shutil.copytree(directory, path, copy_function=shutil.copyfile)
            for one in [path, *path.rglob("*")]:
                one.chmod(0o755 if one.is_dir() else 0o644)
            yield directory.name, tool, path


def line(name, sums, markdown):
    cells = [name]
    for what in SUM:
        there, here = sums[0][what], sums[1][what]
        cells.append(str(here) if there == here else f"{here} of {there}")
    return f"| {' | '.join(cells)} |" if markdown else "  ".join(f"{cell:>13}" for cell in cells)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ctx", default="target/debug/ctx", help="the program")
    parser.add_argument("--fixtures", help="a directory with one directory of sessions per tool")
    parser.add_argument("--only", help="only sources whose name contains this")
    parser.add_argument("--markdown", action="store_true", help="print the table as Markdown")
    args = parser.parse_args()
    program, faults = str(pathlib.Path(args.ctx).resolve()), 0
    heading = line("", [{what: what for what in SUM}] * 2, args.markdown)
    print(heading + ("\n|" + "---|" * (len(SUM) + 1) if args.markdown else ""))
    with tempfile.TemporaryDirectory(prefix="ctx-import-count-") as work:
        for n, (name, tool, path) in enumerate(sources(args, pathlib.Path(work))):
            if args.only and args.only not in name:
                continue
            source = Source(name, tool, path, program, pathlib.Path(work) / f"store-{n}")
            print(line(name, source.check(), args.markdown), flush=True)
            for fault in source.faults:
                print(f"{name}: {fault}", file=sys.stderr)
            faults += len(source.faults)
    print(f"{faults} differences" if faults else "no differences")
    raise SystemExit(1 if faults else 0)


if __name__ == "__main__":
    main()
