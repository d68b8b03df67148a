"""Measures `ctx import` on generated sessions of Claude Code, beside agentsview.

    python3 tests/import/speed.py generate DIR --megabytes 1000
    python3 tests/import/speed.py measure DIR --ctx target/release/ctx --agentsview PATH

The sessions have the record shapes of Claude Code and hand-made text: prompts, thoughts, answers,
tool calls, and tool results of 0.2 to 24 kB, which the tool stores twice. The same seed gives the same
files.
"""

import argparse
import json
import os
import pathlib
import random
import shutil
import subprocess
import tempfile
import time

VERBS = "read write parse build open close merge split send fetch store index check move copy list".split()
NOUNS = "file line token session turn record branch commit test value buffer query table column row key".split()
KINDS = "u8 u32 i64 bool String Path Option<u64> Vec<u8> Duration Result<(),Error>".split()


def code(rand, size):
    """Source code of about `size` characters."""
    lines, length = [], 0
    while length < size:
        verb, noun, other = rand.choice(VERBS), rand.choice(NOUNS), rand.choice(NOUNS)
        number = rand.randrange(1 << 20)
        line = rand.choice([
            f"    let {noun}_{number} = {verb}_{other}(&{noun}, {number})?;",
            f"fn {verb}_{noun}_{number}({other}: {rand.choice(KINDS)}) -> {rand.choice(KINDS)} {{",
            f"    if {noun}.{verb}() > {number} {{ return Err({other}_{rand.randrange(999)}); }}",
            f"    // {verb.capitalize()} the {noun} before the {other} (issue {number}).",
            "}",
            "",
        ])
        lines.append(line)
        length += len(line) + 1
    return "\n".join(lines)


def sentence(rand):
    words = [rand.choice(rand.choice([VERBS, NOUNS])) for _ in range(rand.randrange(6, 18))]
    return f"{' '.join(words).capitalize()} {rand.randrange(1 << 16)}."


def prose(rand, sentences):
    return " ".join(sentence(rand) for _ in range(sentences))


class Session:
    def __init__(self, rand, number, out, result_max):
        self.rand, self.out, self.parent, self.result_max = rand, out, None, result_max
        self.id = f"{rand.getrandbits(128):032x}"
        self.at = 1_760_000_000 + number * 5_000
        self.bytes = 0

    def record(self, kind, message, **more):
        self.at += self.rand.randrange(1, 20)
        uuid = f"{self.rand.getrandbits(128):032x}"
        stamp = time.strftime("%Y-%m-%dT%H:%M:%S.123Z", time.gmtime(self.at))
        record = {"parentUuid": self.parent, "isSidechain": False, "type": kind, "message": message,
                  "uuid": uuid, "timestamp": stamp, "userType": "external", "entrypoint": "cli",
                  "cwd": "/home/user/project", "sessionId": self.id, "version": "2.1.0",
                  "gitBranch": "main", **more}
        self.parent = uuid
        line = json.dumps(record, separators=(",", ":")) + "\n"
        self.out.write(line)
        self.bytes += len(line)

    def assistant(self, part):
        usage = {"input_tokens": 12, "cache_read_input_tokens": 9000, "output_tokens": 340}
        self.record("assistant", {"id": f"msg_{self.rand.getrandbits(64):x}", "type": "message",
                                  "role": "assistant", "model": "claude-sonnet-5", "content": [part],
                                  "stop_reason": None, "usage": usage})

    def turn(self):
        rand = self.rand
        self.record("user", {"role": "user", "content": prose(rand, rand.randrange(1, 6))})
        self.assistant({"type": "thinking", "thinking": prose(rand, rand.randrange(2, 12)),
                        "signature": f"{rand.getrandbits(1024):x}"})
        for _ in range(rand.randrange(1, 6)):
            call = f"toolu_{rand.getrandbits(80):x}"
            name = f"src/{rand.choice(NOUNS)}_{rand.randrange(400)}.rs"
            self.assistant({"type": "tool_use", "id": call, "name": "Read", "input": {"file_path": name}})
            text = code(rand, int(200 * (self.result_max / 200) ** rand.random()))
            result = {"tool_use_id": call, "type": "tool_result", "content": text}
            self.record("user", {"role": "user", "content": [result]},
                        toolUseResult={"type": "text", "file": {"filePath": name, "content": text}})
        self.assistant({"type": "text", "text": prose(rand, rand.randrange(3, 20))})


def generate(args):
    rand, total, number = random.Random(7), args.megabytes * 1_000_000, 0
    size = total // args.sessions
    while total > 0:
        directory = pathlib.Path(args.dir) / "projects" / f"-home-user-project-{number % 20}"
        directory.mkdir(parents=True, exist_ok=True)
        path = directory / f"session-{number:05}.jsonl"
        with open(path, "w", encoding="utf-8") as out:
            session = Session(rand, number, out, args.result_max)
            while session.bytes < min(size, total):
                session.turn()
        total -= session.bytes
        number += 1
    print(f"{number} sessions")


def size_of(path):
    return sum(file.stat().st_size for file in pathlib.Path(path).rglob("*") if file.is_file())


def timed(command, env):
    """Seconds and largest resident size in MB of a command."""
    started = time.monotonic()
    child = subprocess.Popen(command, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    _, status, usage = os.wait4(child.pid, 0)
    if os.waitstatus_to_exitcode(status) != 0:
        raise SystemExit(f"{command} failed: {child.stderr.read().decode()[-2000:]}")
    return time.monotonic() - started, usage.ru_maxrss / 1024


def measure(args):
    source = size_of(pathlib.Path(args.dir) / "projects")
    print(f"source: {source / 1e6:.0f} MB")
    work = pathlib.Path(tempfile.mkdtemp(prefix="ctx-import-speed-"))
    env = {"PATH": os.environ["PATH"], "HOME": str(work), "CLAUDE_CONFIG_DIR": args.dir,
           "CTX_DATA": str(work / "ctx"), "AGENTSVIEW_DATA_DIR": str(work / "agentsview"),
           "AGENTSVIEW_NO_DAEMON": "1",
           "CLAUDE_PROJECTS_DIR": str(pathlib.Path(args.dir) / "projects")}
    try:
        rate = 0
        for run in ("first", "second"):
            seconds, memory = timed([args.ctx, "import", "--from", "claude-code"], env)
            print(f"ctx {run}: {seconds:.2f} s, {source / 1e6 / seconds:.1f} MB/s, {memory:.0f} MB resident")
            rate = rate or source / seconds
        stored = size_of(work / "ctx")
        print(f"ctx store: {stored / 1e6:.0f} MB, {stored / source:.2f} x the source")
        for run in ("first", "second"):
            seconds, _ = timed([args.ctx, "continue", "--json"], env)
            print(f"ctx continue {run}: {seconds * 1000:.0f} ms")
        if args.agentsview:
            seconds, memory = timed([args.agentsview, *args.agentsview_args.split()], env)
            stored = size_of(work / "agentsview")
            print(f"agentsview: {seconds:.2f} s, {source / 1e6 / seconds:.1f} MB/s, "
                  f"{memory:.0f} MB resident, store {stored / source:.2f} x the source; "
                  f"ctx is {rate / (source / seconds):.1f} x as fast")
    finally:
        shutil.rmtree(work)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    verbs = parser.add_subparsers(required=True)
    verb = verbs.add_parser("generate")
    verb.add_argument("dir")
    verb.add_argument("--megabytes", type=int, default=1000)
    verb.add_argument("--sessions", type=int, default=500)
    verb.add_argument("--result-max", type=int, default=24_000, help="bytes of a tool result")
    verb.set_defaults(run=generate)
    verb = verbs.add_parser("measure")
    verb.add_argument("dir")
    verb.add_argument("--ctx", default="target/release/ctx")
    verb.add_argument("--agentsview")
    verb.add_argument("--agentsview-args", default="sync")
    verb.set_defaults(run=measure)
    args = parser.parse_args()
    args.dir = os.path.abspath(args.dir)
    args.run(args)


if __name__ == "__main__":
    main()
