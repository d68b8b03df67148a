"""What other readers of sessions keep of the same files, as a Markdown table.

    python3 tests/import/peers.py --ctx PATH --agentsview PATH --casr PATH --txcript PATH [--fixtures DIR]

Without --fixtures the files are the hand-written samples. `--casr` and `--txcript` are the programs that
`cargo build` makes of `peers/casr-reader` and `peers/txcript-reader`. All of them read one HOME.

Kept means: a prompt, an answer, a result or a thought is kept if its whole text is in the store or model of
the reader; an image if its data is; a call if the reader has it as a call; a branch if the reader has it as
a branch and not as a continuation. Usage is the sum of input and output tokens. A dash stands for
something that the files do not contain.
"""

import argparse
import collections
import json
import os
import pathlib
import shutil
import sqlite3
import subprocess
import tempfile

import samples
import source_counts
from count import tool_of
from ctx_counts import Store
from found_session import canonical

HOMES = {
    "claude-code": ".claude", "codex": ".codex", "gemini-cli": ".gemini", "goose": ".local/share/goose/sessions",
    "kimi-code": ".kimi-code", "opencode": ".local/share/opencode", "pi": ".pi/agent", "qwen-code": ".qwen",
}
# Names of the tools that each reader says it reads.
AGENTSVIEW = {"claude": "claude-code", "codex": "codex", "gemini": "gemini-cli", "goose": "goose", "kimi": "kimi-code",
              "opencode": "opencode", "pi": "pi", "qwen": "qwen-code"}
CASR = {"claude-code": "claude-code", "codex": "codex", "gemini": "gemini-cli", "opencode": "opencode",
        "pi-agent": "pi"}
TXCRIPT = {"claude_code": "claude-code", "codex": "codex", "opencode": "opencode", "pi": "pi"}
COLUMNS = ("messages", "tool calls", "tool results", "reasoning", "branches", "images", "usage")


class Reading:
    """What a reader has of the sessions of one tool."""

    def __init__(self):
        self.users, self.answers, self.results = [], [], []
        self.calls = self.branches = 0
        self.tokens = collections.Counter()
        self.everything = ""

    def kept(self, source):
        """Of the content of the files, the part that the reader has."""
        turns = [found.counts() for found in source]
        have = [found.contents() for found in source]
        there = {name: sum(one[name] for one in turns) for name in turns[0]} if turns else {}
        texts = [text for found in have for text in found["prompts"]]
        answers = [text for found in have for text in found["answers"]]
        # Space at the ends does not count.
        results = [text.split(" ", 1)[1].strip() for found in have for text in found["tool results"]]
        thoughts = [thought for found in source for thought in found.thoughts]
        images = [data for found in source for data in found.pictures]
        here = {
            "messages": matched(texts, self.users) + matched(answers, self.answers),
            "tool calls": min(self.calls, there.get("tool calls", 0)),
            "tool results": matched(results, self.results),
            "reasoning": sum(words_of(thought) in self.everything for thought in thoughts),
            "branches": min(self.branches, there.get("branches", 0)),
            "images": sum(data in self.everything for data in images),
            "usage": self.tokens["input"] + self.tokens["output"],
        }
        there["usage"] = tokens_of(there)
        return {name: (here[name], there.get(name, 0)) for name in COLUMNS}


def tokens_of(counts):
    return counts.get("input tokens", 0) + counts.get("output tokens", 0)


def words_of(thought):
    """The words of a thought, which some tools wrap in an object."""
    if not thought.startswith("{"):
        return thought
    thought = json.loads(thought)
    summary = thought.get("summary")
    return summary[0]["text"] if summary else next(
        thought[name] for name in ("think", "thinking", "text", "description") if name in thought)


def matched(wanted, stored):
    """The number of texts that are in one of the stored ones; each stored text counts as often as it occurs."""
    left, count = list(stored), 0
    for text in sorted(wanted, key=len, reverse=True):
        for n, one in enumerate(left):
            if text in one:
                count += 1
                left[n] = one.replace(text, "", 1)
                break
    return count


def agentsview(program, home):
    data = home / "agentsview"
    environment = {"PATH": os.environ["PATH"], "HOME": str(home), "AGENTSVIEW_NO_DAEMON": "1",
                   "AGENTSVIEW_DATA_DIR": str(data)}
    # By default agentsview leaves out the results of calls that read files.
    data.mkdir()
    (data / "config.toml").write_text("result_content_blocked_categories = []\n", encoding="utf-8")
    subprocess.run([program, "sync"], env=environment, check=True, capture_output=True)
    readings = {tool: Reading() for tool in AGENTSVIEW.values()}
    with sqlite3.connect(data / "sessions.db") as database:
        database.row_factory = sqlite3.Row
        for row in database.execute("SELECT * FROM sessions"):
            if row["agent"] in AGENTSVIEW and row["relationship_type"] == "fork":
                readings[AGENTSVIEW[row["agent"]]].branches += 1
        joined = "SELECT s.agent, o.* FROM {} o JOIN sessions s ON s.id = o.session_id"
        for row in database.execute(joined.format("messages")):
            reading = readings.get(AGENTSVIEW.get(row["agent"]), Reading())
            (reading.users if row["role"] == "user" else reading.answers).append(row["content"])
            reading.everything += row["content"] + row["thinking_text"]
            usage = json.loads(row["token_usage"] or "{}")
            reading.tokens["input"] += sum(usage.get(name, 0) for name in (
                "input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens"))
            reading.tokens["output"] += usage.get("output_tokens", 0)
        for row in database.execute(joined.format("tool_calls")):
            reading = readings.get(AGENTSVIEW.get(row["agent"]), Reading())
            reading.calls += 1
            reading.results.append(row["result_content"] or "")
            reading.everything += row["result_content"] or ""
        for row in database.execute(joined.format("tool_result_events")):
            reading = readings.get(AGENTSVIEW.get(row["agent"]), Reading())
            reading.results.append(row["content"])
            reading.everything += row["content"]
    return readings


def lines(program, home, arguments=()):
    environment = {"PATH": os.environ["PATH"], "HOME": str(home),
                   "OPENCODE_HOME": str(home / HOMES["opencode"])}
    done = subprocess.run([program, *arguments], env=environment, check=True, capture_output=True, cwd=home)
    return [json.loads(line) for line in done.stdout.splitlines()]


def casr(program, home, source):
    # The reader finds sessions of pi by the name of the file, others by their id.
    names = [found.name for sessions in source.values() for found in sessions]
    names += [file.stem for file in (home / HOMES["pi"]).rglob("*.jsonl")]
    readings = {tool: Reading() for tool in CASR.values()}
    for line in lines(program, home, names):
        if "session" not in line:
            continue
        reading = readings[CASR[line["tool"]]]
        reading.everything += json.dumps(line["session"])
        for message in line["session"]["messages"]:
            (reading.answers if message["role"] == "Assistant" else reading.users).append(message["content"])
            reading.calls += len(message["tool_calls"])
            reading.results += [result["content"] for result in message["tool_results"]]
            usage = ((message["extra"] or {}).get("message") or {}).get("usage") or {}
            add_usage(reading, usage)
    return readings


def add_usage(reading, usage):
    given = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens", "input", "cacheRead",
             "cacheWrite")
    reading.tokens["input"] += sum(usage.get(name) or 0 for name in given)
    reading.tokens["output"] += usage.get("output_tokens") or usage.get("output") or 0


def txcript(program, home):
    readings = {tool: Reading() for tool in TXCRIPT.values()}
    for line in lines(program, home):
        reading = readings.get(TXCRIPT.get(line["harness"]), Reading())
        for message in line.get("messages", []):
            usage = dict(message.get("usage") or {})
            if line["harness"] == "codex":
                # The input of Codex includes what was read from a cache.
                usage.pop("cache_read_input_tokens", None)
            add_usage(reading, usage)
            for block in message["content"]:
                kind = block["type"]
                reading.everything += json.dumps(block)
                if kind == "text":
                    (reading.users if message["role"] == "user" else reading.answers).append(block["text"])
                elif kind == "tool_use":
                    reading.calls += 1
                elif kind == "tool_result":
                    content = block["content"]
                    reading.results.append(content if isinstance(content, str) else canonical(content))
    return readings


def ctx(program, home, source):
    """The same table for ctx, from the counts that `count.py` compares."""
    tables = {}
    for tool, sessions in source.items():
        with tempfile.TemporaryDirectory() as store:
            store = Store(program, store)
            store.import_from(tool, home / HOMES[tool])
            kept = [one.counts() for one in store.count(tool).values()]
        there = [found.counts() for found in sessions]
        for counts in [*kept, *there]:
            counts["usage"] = tokens_of(counts)
        tables[tool] = {name: (sum(one[name] for one in kept), sum(one[name] for one in there)) for name in COLUMNS}
    return tables


def fill(home, fixtures):
    """Puts the files where the tools keep them."""
    if not fixtures:
        for tool, place in HOMES.items():
            samples.SAMPLES[tool](home / place)
        return
    for directory in sorted(pathlib.Path(fixtures).iterdir()):
        tool = tool_of(directory.name)
        for inner in directory.iterdir() if tool else []:
            if inner.is_dir():
                shutil.copytree(inner, home / inner.name.replace("dot-", "."), dirs_exist_ok=True,
                                copy_function=shutil.copyfile)
            elif inner.suffix == ".db":
                place = home / HOMES[tool]
                place.mkdir(parents=True)
                shutil.copyfile(inner, place / inner.name)


def cell(here, there):
    if there == 0:
        return "-"
    return str(here) if here == there else f"{here} of {there}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("ctx", "agentsview", "casr", "txcript"):
        parser.add_argument(f"--{name}", required=True, help=f"the program {name}")
    parser.add_argument("--fixtures", help="a directory with one directory of sessions per tool")
    args = parser.parse_args()
    programs = {name: str(pathlib.Path(getattr(args, name)).resolve())
                for name in ("ctx", "agentsview", "casr", "txcript")}
    with tempfile.TemporaryDirectory(prefix="ctx-import-peers-") as home:
        home = pathlib.Path(home)
        fill(home, args.fixtures)
        source = {tool: source_counts.read(tool, home / place) for tool, place in HOMES.items()}
        source = {tool: sessions for tool, sessions in source.items() if sessions}
        readers = {
            "agentsview": agentsview(programs["agentsview"], home),
            "casr": casr(programs["casr"], home, source),
            "txcript": txcript(programs["txcript"], home),
        }
        mine = ctx(programs["ctx"], home, source)
    print(f"| tool | reader | {' | '.join(COLUMNS)} |\n|{'---|' * (len(COLUMNS) + 2)}")
    for tool, sessions in source.items():
        print(f"| {tool} | ctx | {' | '.join(cell(*mine[tool][name]) for name in COLUMNS)} |")
        for reader, readings in readers.items():
            if tool not in readings:
                print(f"| {tool} | {reader} | not offered |{' |' * (len(COLUMNS) - 1)}")
                continue
            kept = readings[tool].kept(sessions)
            print(f"| {tool} | {reader} | {' | '.join(cell(*kept[name]) for name in COLUMNS)} |")


if __name__ == "__main__":
    main()
