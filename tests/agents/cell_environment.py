"""The environment of one cell: directories, the records of the fake model, and a configured ctx."""

import json
import os
import pathlib
import shutil
import sys

import fake_model as models
import processes
from agents import KEY
from ctx_server import Ctx

HERE = pathlib.Path(__file__).parent
# Time in which agents must end after ctx was stopped.
LEFT_SECONDS = 5.0


def toml(value):
    """The subset of TOML for provider settings. JSON strings are valid TOML strings."""
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{json.dumps(key)} = {toml(each)}" for key, each in value.items()) + " }"
    if isinstance(value, list):
        return "[" + ", ".join(toml(each) for each in value) + "]"
    return json.dumps(value, ensure_ascii=False)


class CellEnvironment:
    """The directories and processes of one cell. `logs` remains after the run."""

    def __init__(self, suite, agents, cell, direct=("openai",), clocks=None):
        self.suite, self.agents, self.direct = suite, agents, direct
        name = f"{'+'.join(agent.name for agent in agents) or 'direct'}-{cell}"
        self.place = suite.runs / name
        shutil.rmtree(self.place, ignore_errors=True)
        self.logs = suite.logs / name
        shutil.rmtree(self.logs, ignore_errors=True)
        self.logs.mkdir(parents=True)
        self.work = self.place / "work"
        self.work.mkdir(parents=True)
        self.model = suite.model
        self.model.begin(self.logs / "model.jsonl", lambda request: next(filter(None, (agent.side(request) for agent in agents)), None))
        # Agents inherit this environment; their own variables are in the configuration.
        (self.place / "tmp").mkdir()
        self.ctx = Ctx(suite.ctx, self.place, self.config(clocks), {"DIRECT_KEY": KEY, "TMPDIR": str(self.place / "tmp")})
        self.ctx.log = self.logs / "ctx.log"
        self.marks = []

    def home(self, agent):
        return self.place / f"home-{agent.name}"

    def wire(self, agent):
        return self.logs / f"{agent.name}.wire.jsonl"

    def config(self, clocks):
        lines = ["[clocks]", *(f'{name} = "{value}"' for name, value in (clocks or {}).items()), ""]
        lines += ["[defaults]", f'provider = "{self.agents[0].name if self.agents else self.direct[0]}"', 'on_new_task = "auto"', ""]
        for agent in self.agents:
            home = self.home(agent)
            home.mkdir(parents=True, exist_ok=True)
            given = agent.configure(home, self.model.address)
            node = self.suite.installed["node"] / "node_modules" / ".bin"
            path = os.pathsep.join([str(node), "/usr/local/bin", "/usr/bin", "/bin"])
            command = [sys.executable, str(HERE / "wire_log.py"), str(self.wire(agent)), *agent.command(self.suite.installed[agent.name])]
            lines += [f"[providers.{agent.name}]", f'kind = "{agent.kind}"', f"command = {toml(command)}"]
            lines += [f"env = {toml({'HOME': str(home), 'PATH': path, 'LANG': 'C.UTF-8', **given})}", ""]
        for kind in self.direct:
            url = self.model.address + ("" if kind == "anthropic" else "/v1")
            lines += [f"[providers.{kind}]", f'kind = "{"openai" if kind == "responses" else kind}"', f'base_url = "{url}"']
            lines += [f'model = "{models.DIRECT}-{kind}"', 'api_key_env = "DIRECT_KEY"', *(['api = "responses"'] if kind == "responses" else []), ""]
        return "\n".join(lines)

    def mark(self, words="Please answer this."):
        """A user text with a unique marker. Every later request must contain the marker exactly once."""
        mark = models.marker()
        self.marks.append(mark)
        return mark, f"{words} ({mark})"

    def lines(self, name="effect.txt"):
        """The number of times the tool's effect happened."""
        path = self.work / name
        return len(path.read_text(encoding="utf-8").splitlines()) if path.exists() else 0

    def assert_each_text_once(self, newest, forgiven=()):
        """Asserts that a request contains each user text exactly once; `forgiven` texts may be missing."""
        assert newest is not None, "no request reached the model"
        wrong = {}
        for mark in self.marks:
            count = newest.count(mark)
            if count != 1 and not (mark in forgiven and count == 0):
                wrong[mark] = count
        if wrong:
            order = {mark: n + 1 for n, mark in enumerate(self.marks)}
            counts = ", ".join(f"text {order[mark]} of {len(self.marks)} {count} times" for mark, count in wrong.items())
            raise AssertionError(f"request {newest.number} of model.jsonl has {counts}")

    def running_processes(self, seconds=0.0):
        """The processes of the agents that still run after this time."""
        return {pid: line for agent in self.agents for pid, line in processes.wait_until_ended(self.home(agent), seconds).items()}

    def end(self):
        """Kills all processes of the cell."""
        self.ctx.kill()
        processes.kill(self.running_processes())
        processes.kill(processes.of_home(self.place / "user"))

    def close(self):
        """Stops ctx and asserts that all processes ended and that no file contains the key."""
        if self.ctx.alive():
            self.ctx.stop()
            left = self.running_processes(LEFT_SECONDS)
            assert not left, f"left over after a clean stop: {list(left.values())}"
        self.end()
        places = [path for path in self.ctx.data.rglob("*") if path.is_file() and path.name != "ctx.toml"]
        places += [path for path in [self.ctx.log] if path.exists()]
        found = [path.name for path in places if KEY.encode() in path.read_bytes()]
        assert not found, f"the provider's key is in {', '.join(found)}"
