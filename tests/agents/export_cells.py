"""Sessions of real agents, imported by ctx, continued there, exported back and continued by the agent again."""

import json
import subprocess

from agents import KEY
from fake_model import DIRECT, answer_to
from hook_cells import PROGRAMS, SECONDS_MAX, Outside
from terminal_picker import accept_first_start, shows
from wire_formats import Say

# Agent → name of its package, name for `ctx import` and `ctx export`.
TOOLS = {name: PROGRAMS[name][:2] for name in ("claude", "codex", "opencode", "pi")}
# Agent → command line that continues a session with a prompt; the id replaces ID.
RESUME = {
    "claude": ["claude", "-p", "--resume", "ID", "--"],
    "codex": ["codex", "exec", "resume", "--skip-git-repo-check", "ID"],
    "opencode": ["opencode", "run", "--session", "ID"],
    "pi": ["pi", "--provider", "tests", "--model", "scripted", "--session", "ID", "-p"],
}
TITLE = "There and back again"
PROVIDER = """[defaults]
provider = "openai"
on_new_task = "auto"

[providers.openai]
kind = "openai"
base_url = "{url}/v1"
model = "{model}"
api_key_env = "DIRECT_KEY"
"""


def packages(agents):
    """The packages that the cell needs besides those of the agents."""
    return sorted({TOOLS[agent][0] for agent in agents if agent in TOOLS} - set(agents))


class Traveller(Outside):
    """A session on its way from an agent through ctx and back."""

    def __init__(self, bench, agent):
        super().__init__(bench, agent)
        self.environment["DIRECT_KEY"] = KEY
        self.texts = []

    def begin_store(self):
        self.ctx("init")
        config = PROVIDER.format(url=self.bench.model.address, model=f"{DIRECT}-openai")
        (self.bench.work / ".ctx" / "ctx.toml").write_text(config, encoding="utf-8")

    def assert_once(self, mark):
        """The newest request has every text of the user, every earlier answer and every result once."""
        newest = self.bench.model.newest(mark)
        self.bench.assert_each_text_once(newest)
        wrong = {text: newest.text.count(text) for text in self.texts if newest.text.count(text) != 1}
        assert not wrong, f"request {newest.number} of model.jsonl has {wrong}"
        self.texts.append(answer_to(mark))

    def listed(self):
        """The sessions of the agent that `ctx continue` lists for this directory."""
        return self.ctx("continue", "--from", self.tool)["sessions"]

    def refused(self, *arguments):
        """The error of a command of ctx that must fail."""
        done = subprocess.run(
            [str(self.bench.suite.ctx), "--json", *arguments], cwd=self.bench.work, env=self.environment, capture_output=True, timeout=60, check=False
        )
        assert done.returncode == 1, f"ctx {' '.join(arguments)} ended with {done.returncode}"
        return json.loads(done.stderr)

    def output(self, *command):
        """The output of a command of the agent."""
        done = subprocess.run(
            command, cwd=self.bench.work, env=self.environment, capture_output=True, timeout=SECONDS_MAX, check=False, stdin=subprocess.DEVNULL
        )
        return done.stdout.decode(errors="replace") + done.stderr.decode(errors="replace")

    def codex_threads(self):
        """The sessions that Codex lists, over the protocol of its editors."""
        requests = [
            {"id": 1, "method": "initialize", "params": {"clientInfo": {"name": "tests", "version": "1"}}},
            {"method": "initialized"},
            {"id": 2, "method": "thread/list", "params": {"limit": 50}},
        ]
        process = subprocess.Popen(
            ["codex", "app-server"], cwd=self.bench.work, env=self.environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
        try:
            process.stdin.write(b"".join(json.dumps(each).encode() + b"\n" for each in requests))
            process.stdin.flush()
            for line in process.stdout:
                if json.loads(line).get("id") == 2:
                    return line.decode()
            return ""
        finally:
            process.kill()
            process.wait()

    def assert_listed(self, exported):
        """The agent lists the session: by its id, or on a terminal by its title."""
        if self.agent.name == "opencode":
            wanted, listed = exported["id"], self.output("opencode", "session", "list")
        elif self.agent.name == "codex":
            wanted, listed = exported["id"], self.codex_threads()
        else:
            if self.agent.name == "claude":
                accept_first_start(self.home, self.bench.work)
            wanted, listed = TITLE, shows([self.agent.name, "--resume"], self.bench.work, self.environment, TITLE)
        assert wanted in listed, f"{wanted} is not in {listed[:1000]}"

    def files(self):
        """The files of the agent's home that contain sessions, except databases, which the agent changes itself."""
        return {path: path.read_bytes() for path in self.home.rglob("*.jsonl") if path.name != "history.jsonl"}


def export(bench, agent):
    """An imported and continued session, exported back, is listed and continued by its agent with the whole history once."""
    outside = Traveller(bench, agent)
    outside.begin_store()
    mark, text = bench.mark("Run the command.")
    outside.texts += [f"result-{mark[4:]}", answer_to(mark)]
    bench.model.script(mark, agent.shell(f"printf res; echo ult-{mark[4:]}"), Say(answer_to(mark)))
    outside.command = [*outside.command[:-1], "--"] if agent.name == "claude" else outside.command
    outside.run(text)

    [one] = outside.listed()
    assert not one["imported"], f"listed: {json.dumps(one)[:500]}"
    mark, text = bench.mark("Go on in ctx.")
    outside.ctx("continue", one["id"], text, "--with", "openai")
    outside.assert_once(mark)
    [one] = outside.listed()
    assert one["imported"], f"listed: {json.dumps(one)[:500]}"
    session = one["session"]

    outside.ctx("session", "rename", session, TITLE)
    before = outside.files()
    exported = outside.ctx("export", session, "--to", outside.tool)
    assert exported["id"] in exported["resume_command"], f"the command is {exported['resume_command']}"
    assert outside.refused("export", session, "--to", outside.tool)["code"] == "target_exists"
    assert before.items() <= outside.files().items(), "a session that was there changed"
    outside.assert_listed(exported)

    mark, text = bench.mark("Go on in the agent.")
    outside.command = [exported["id"] if word == "ID" else word for word in RESUME[agent.name]]
    outside.run(text)
    outside.assert_once(mark)

    # The agent went on in the exported session, which ctx imports as a session of its own.
    again = outside.ctx("import", "--from", outside.tool)["imported"]
    turns = {one["session"]: one["turns"] for one in again if one["effect"] == "created"}
    assert list(turns.values()) == [3], f"imported again: {json.dumps(again)[:800]}"
    return f"{len(outside.texts)} texts once"


def foreign_records(work, marks):
    """A session of another program: a compacted turn, reasoning, two calls at once, a repeated id, an error."""
    call = lambda name, command: {"id": name, "name": "shell", "arguments": {"cmd": command}}
    return [
        {"type": "session", "id": "foreign", "title": "From another program", "working_dir": str(work), "timestamp": "2026-01-02T03:04:05Z"},
        {"role": "user", "content": f"Before the summary ({marks['summarised']})."},
        {"role": "assistant", "content": "An answer before the summary.", "model": "other-model"},
        {"role": "summary", "content": f"The summary of it ({marks['summary']})."},
        {"role": "user", "content": f"Run both ({marks['prompt']})."},
        {"role": "assistant", "reasoning": "Two at once.", "content": f"Both ({marks['answer']}).", "tool_calls": [call("c1", "one"), call("c2", "two")]},
        {"role": "tool", "tool_call_id": "c1", "content": f"first ({marks['first']})"},
        {"role": "tool", "tool_call_id": "c2", "content": f"second ({marks['second']})", "is_error": True},
        {"role": "assistant", "content": f"Done ({marks['done']})."},
        {"role": "user", "content": f"Again ({marks['again']})."},
        {"role": "assistant", "content": "", "tool_calls": [call("c1", "three")]},
        {"role": "tool", "tool_call_id": "c1", "content": f"third ({marks['third']})"},
        {"role": "assistant", "content": "", "error": {"code": "overloaded", "message": "The model was overloaded."}},
    ]


def export_foreign(bench, agent):
    """A session of another program, with a compaction, continued in ctx, is continued by the agent: the summary and what follows once."""
    outside = Traveller(bench, agent)
    outside.begin_store()
    names = ("summarised", "summary", "prompt", "answer", "first", "second", "done", "again", "third")
    marks = {name: bench.mark()[0] for name in names}
    file = bench.place / "foreign.jsonl"
    file.write_text("".join(json.dumps(record) + "\n" for record in foreign_records(bench.work, marks)), encoding="utf-8")
    session = outside.ctx("import", "--from", "jsonl", str(file))["imported"][0]["session"]
    # ctx itself sends the turns that the other program summarised.
    bench.marks.remove(marks["summary"])
    mark, text = bench.mark("Go on in ctx.")
    outside.ctx("continue", session, text, "--with", "openai")
    outside.assert_once(mark)
    bench.marks[bench.marks.index(marks["summarised"])] = marks["summary"]
    exported = outside.ctx("export", session, "--to", outside.tool)
    mark, text = bench.mark("Go on in the agent.")
    outside.command = [exported["id"] if word == "ID" else word for word in RESUME[agent.name]]
    outside.run(text)
    newest = bench.model.newest(mark)
    outside.assert_once(mark)
    assert newest.count(marks["summarised"]) == 0, "the request contains a turn that was summarised"
    return f"{len(bench.marks)} texts once"
