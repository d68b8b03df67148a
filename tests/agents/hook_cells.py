"""Agents that run outside ctx, with the hooks of `ctx hook install`: the task holds what the file system shows."""

import json
import os
import subprocess

from fake_model import answer_to
from wire_formats import Call, Say

SECONDS_MAX = 120
COMMAND = "echo made by a command > made.txt; echo shown; exit 3"
PATCH = "apply_patch <<'EOF'\n*** Begin Patch\n*** Add File: sub/written.txt\n+one\n+two, ünïcode\n*** End Patch\nEOF\n"
WRITTEN = "one\ntwo, ünïcode\n"

# Agent → name of its package, name for `ctx hook`, command line before the prompt.
PROGRAMS = {
    "claude": ("claude-code", "claude-code", ["claude", "-p", "--permission-mode", "acceptEdits", "--allowedTools", "Bash,Write", "--"]),
    "codex": (
        "codex-cli",
        "codex",
        # The suite itself has installed the hook that Codex would ask the user to review.
        ["codex", "exec", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox", "--dangerously-bypass-hook-trust"],
    ),
    "opencode": ("opencode", "opencode", ["opencode", "run"]),
    "gemini": ("gemini", "gemini-cli", ["gemini", "--approval-mode", "yolo", "-p"]),
    "pi": ("pi", "pi", ["pi", "--provider", "tests", "--model", "scripted", "-p"]),
}


def packages(agents):
    """The packages that the cell needs besides those of the agents."""
    return sorted({PROGRAMS[agent][0] for agent in agents if agent in PROGRAMS} - set(agents))


class Outside:
    """An agent in a project with a store, without a server of ctx."""

    def __init__(self, bench, agent):
        self.bench, self.agent = bench, agent
        self.package, self.tool, self.command = PROGRAMS[agent.name]
        self.home = bench.home(agent)
        given = agent.configure(self.home, bench.model.address)
        if agent.name == "opencode":
            self.allow_all()
        node = bench.suite.installed["node"] / "node_modules" / ".bin"
        own = bench.suite.installed[self.package] / "node_modules" / ".bin"
        path = os.pathsep.join([str(own), str(node), "/usr/local/bin", "/usr/bin", "/bin"])
        self.environment = {"HOME": str(self.home), "PATH": path, "LANG": "C.UTF-8", **given}

    def allow_all(self):
        path = self.home / ".config/opencode/opencode.json"
        settings = json.loads(path.read_text(encoding="utf-8"))
        settings["permission"] = {"bash": "allow", "edit": "allow"}
        path.write_text(json.dumps(settings), encoding="utf-8")

    def ctx(self, *arguments):
        done = subprocess.run(
            [str(self.bench.suite.ctx), "--json", *arguments], cwd=self.bench.work, env=self.environment, capture_output=True, timeout=60, check=False
        )
        assert done.returncode == 0, f"ctx {' '.join(arguments)}: {done.stderr.decode()[:500]}"
        return json.loads(done.stdout)

    def run(self, prompt, **variables):
        """Runs the agent with a prompt until it exits."""
        with open(self.bench.logs / f"{self.agent.name}.log", "ab") as log:
            done = subprocess.run(
                [*self.command, prompt],
                cwd=self.bench.work,
                env={**self.environment, **variables},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                timeout=SECONDS_MAX,
                check=False,
            )
        assert done.returncode == 0, f"the agent ended with {done.returncode}: see {log.name}"

    def entries(self):
        """The entries of all steps of the open task, oldest first."""
        found, at = [], self.ctx("stage", "status")["task"]["head"]
        while at:
            step = self.ctx("show", at)["content"]
            found = step["payload"] + found
            at = step["parent"]
        return found

    def settings(self):
        """Every file in the home directory that the installation may change."""
        names = ("settings.json", "hooks.json", "ctx.js", "opencode.json", "models.json", "config.toml")
        return {str(path): path.read_bytes() for path in self.home.rglob("*") if path.is_file() and (path.name in names or "ctx-backup" in path.name)}


def hooks(bench, agent):
    """The files and commands of a run are in the task; without the hook, and under CTX_RUN, nothing is recorded."""
    outside = Outside(bench, agent)
    outside.ctx("init")
    before = outside.settings()
    outside.ctx("hook", "install", outside.tool, "--yes")
    mark, text = bench.mark("Write the two files.")
    written = bench.work / "sub" / "written.txt"
    write = Call("exec_command", {"cmd": PATCH}) if agent.name == "codex" else agent.write(str(written), WRITTEN)
    bench.model.script(mark, write, agent.shell(COMMAND), Say("Done. Both files are written."))
    outside.run(text)
    assert_recorded(outside, mark)

    steps = outside.ctx("stage", "status")["task"]["steps"]
    second, text = bench.mark("Also append a line.")
    bench.model.script(second, agent.shell("echo more >> other.txt"), Say(answer_to(second)))
    outside.run(text, CTX_RUN="run-of-ctx")
    assert bench.lines("other.txt") == 1, "the agent did not run the command"
    assert outside.ctx("stage", "status")["task"]["steps"] == steps, "a run under CTX_RUN was recorded"

    outside.ctx("hook", "uninstall", outside.tool)
    changed = {path for path, content in outside.settings().items() if path in before and before[path] != content}
    left = {path for path in set(outside.settings()) - set(before) if "ctx" in path.rsplit("/", 1)[1]}
    # Agents write to some of their settings themselves, but not about ctx.
    own = {path for path in changed if b"hook record" in outside.settings()[path]}
    assert not own and not left, f"left after the removal: {own | left}"
    third, text = bench.mark("Also append a line.")
    bench.model.script(third, agent.shell("echo more >> other.txt"), Say(answer_to(third)))
    outside.run(text)
    assert outside.ctx("stage", "status")["task"]["steps"] == steps, "a run without the hook was recorded"
    return f"{steps} steps"


def assert_recorded(outside, mark):
    """Compares the open task with the project's directory."""
    work = outside.bench.work
    status = outside.ctx("stage", "status")
    task = status["task"]
    assert task and mark in task["description"], f"the task is {json.dumps(task)[:300]}"
    entries = outside.entries()
    recorded = {entry["path"]: entry["content"] for entry in entries if entry["type"] == "file_write"}
    ignored = (".ctx", ".git")
    files = [path for path in work.rglob("*") if path.is_file() and path.relative_to(work).parts[0] not in ignored]
    on_disk = {str(path.relative_to(work)): path.read_text(encoding="utf-8") for path in files}
    assert on_disk.get("sub/written.txt") == WRITTEN and "made.txt" in on_disk, f"the agent wrote {sorted(on_disk)}"
    assert recorded == on_disk, f"recorded: {recorded}, on disk: {on_disk}"
    commands = [entry for entry in entries if entry["type"] == "command"]
    wanted = [entry for entry in commands if entry["argv"] == [COMMAND]]
    assert len(wanted) == 1, f"the commands are {json.dumps(commands)[:500]}"
    assert wanted[0]["exit"] == 3 and "shown" in json.dumps(wanted[0]["output"]), f"the command is {wanted[0]}"
    assert task["state"]["name"] == "pending_complete", f"the task is {json.dumps(task['state'])[:300]}"
    listed = outside.ctx("hook", "list")
    assert listed["waiting"] == 0, f"{listed['waiting']} records wait"
    log = work / ".ctx" / "hooks" / "hook.log"
    assert not log.exists(), f"errors of hooks: {log.read_text(encoding='utf-8')}"
