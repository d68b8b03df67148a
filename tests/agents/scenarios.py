"""Scenarios with several providers or measurements; each is a row of the report."""

import difflib
import json
import re
import statistics
import time

import processes
from agents import by_name
from cell_environment import HERE, LEFT_SECONDS
from cell_steps import EFFECT, answered, ask, choose, opened, settle
from fake_model import answer_to
from wire_formats import Say

SNAPSHOTS = HERE / "snapshots"
DELTAS = 400


def switch(bench, agent):
    """openai → claude → openai → claude → a fork on anthropic: each text once, and the requests match the snapshot."""
    session = opened(bench)
    requests = []
    for provider in ("openai", "claude", "openai", "claude"):
        mark = prompt_with_command(bench, agent, session) if provider == "claude" else ask(bench, session, provider_id=provider)
        requests.append((provider, bench.model.newest(mark)))
    fork = session.fork()
    mark = ask(bench, fork, provider_id="anthropic")
    requests.append(("a fork, anthropic", bench.model.newest(mark)))
    assert bench.lines() == 2, f"two commands were requested, {bench.lines()} ran"
    return compare("switch", [{"on": on, "conversation": normalized(request, bench)} for on, request in requests])


def prompt_with_command(bench, agent, session):
    """Sends a prompt for which the agent runs a command."""
    mark, text = bench.mark()
    bench.model.script(mark, agent.shell(EFFECT), Say(answer_to(mark)))
    session.say(text, provider_id=agent.name)
    settle(session, "allow_once")
    answered(session, mark)
    bench.assert_each_text_once(bench.model.newest(mark))
    return mark


def normalized(request, bench):
    """The conversation of a request, without values that change from run to run."""
    text = json.dumps([plain(item) for item in request.conversation if plain(item)], ensure_ascii=False)
    for n, mark in enumerate(bench.marks):
        text = text.replace(mark, f"mark-{n + 1}").replace(mark.removeprefix("mark"), f"mark {n + 1}")
    text = text.replace(str(bench.work), "WORK")
    text = re.sub(r"\b\d{4}-\d\d-\d\d(T[\d:.]+Z)?", "DATE", text)
    text = re.sub(r"\btoolu_\d+|\bcall_\d+", "CALL", text)
    return json.loads(text)


def plain(item):
    """Role, texts, calls and results of one message, without the preamble that the agent adds."""
    role, content = item.get("role"), item.get("content")
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content or []
    texts = [block["text"] for block in blocks if block.get("type") == "text" and not block["text"].startswith("<system-reminder>")]
    calls = [{"name": block["name"], "input": block["input"]} for block in blocks if block.get("type") == "tool_use"]
    calls += [each["function"] for each in item.get("tool_calls") or []]
    results = [block.get("content") for block in blocks if block.get("type") == "tool_result"]
    found = {"role": role, "text": texts, "calls": calls, "results": results}
    found = {key: value for key, value in found.items() if value}
    return found if role != "system" and len(found) > 1 else None


def compare(name, found):
    path = SNAPSHOTS / f"{name}.json"
    text = json.dumps(found, indent=2, ensure_ascii=False) + "\n"
    if not path.exists():
        SNAPSHOTS.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return "snapshot written"
    known = path.read_text(encoding="utf-8")
    # The order of fields is not part of a request.
    if json.loads(known) != found:
        path.with_suffix(".new.json").write_text(text, encoding="utf-8")
        change = "\n".join(list(difflib.unified_diff(known.splitlines(), text.splitlines(), "known", "now", lineterm="", n=1))[:30])
        raise AssertionError(f"the requests changed (delete {path.name} to accept the new ones):\n{change}")
    return "matches the snapshot"


def permission_kill(bench, agent):
    """A permission request survives a kill -9 of ctx, another client answers it, and the work continues."""
    session = opened(bench)
    ask(bench, session)
    session = decide_after_kill(bench, agent, session, "allow_once", [agent.shell(EFFECT)])
    settle_without_requests(session)
    assert bench.lines() == 1, f"allowed once, the effect happened {bench.lines()} times"
    bench.assert_each_text_once(bench.model.newest())
    # The restarted agent requests another command, which the permission does not cover.
    session = decide_after_kill(bench, agent, session, "allow_once", [agent.shell("echo other >> other.txt")])
    again = session.suspended()
    assert "other.txt" in json.dumps(again), f"the agent does not ask about the changed command: {json.dumps(again)[:300]}"
    assert bench.lines("other.txt") == 0, "the changed command ran without a permission"
    choose(session, again, "allow_once")
    settle_without_requests(session)
    assert (bench.lines(), bench.lines("other.txt")) == (1, 1), f"effects: {bench.lines()}, {bench.lines('other.txt')}"
    # The agent repeats a rejected command: the decision already exists.
    session = decide_after_kill(bench, agent, session, "reject_once", [agent.shell(EFFECT)])
    settle_without_requests(session)
    assert bench.lines() == 1, "a rejected command ran"
    ask(bench, session)


def decide_after_kill(bench, agent, session, kind, then):
    """Suspends a run, restarts ctx and lets another client decide. `then` are the next calls of the model."""
    mark, text = bench.mark()
    bench.model.script(mark, agent.shell(EFFECT), *then, Say(answer_to(mark)))
    session.say(text)
    asked = session.suspended()
    done = bench.lines()
    bench.ctx.kill()
    left = bench.running_processes(LEFT_SECONDS)
    assert not left, f"an agent survived the kill and could run the command: {list(left.values())}"
    bench.ctx.start()
    session = session.by(bench.ctx.client())
    waiting = session.wait("the permission still waits", lambda info: info["suspension"] is not None, 30)["suspension"]
    assert waiting["id"] == asked["id"], "the suspension has another id"
    assert bench.lines() == done, "the effect happened without a permission"
    choose(session.by(bench.ctx.client()), waiting, kind)
    return session


def settle_without_requests(session):
    asked = settle(session, "allow_once")
    assert asked == 0, f"the agent asked {asked} more times for the same command"


def latency(bench, agent):
    """The delay between a delta on the agent's pipe and on the event stream of ctx."""
    session = opened(bench)
    ask(bench, session)
    mark, text = bench.mark()
    words = " ".join(f"w{n:04d}" for n in range(DELTAS))
    bench.model.script(mark, Say(words, delay=0.01))
    follower = session.follow()
    session.say(text)
    session.idle()
    follower.close()
    offset = time.time() - time.monotonic()
    out = {}
    for line in bench.wire(agent).read_text(encoding="utf-8").splitlines():
        line = json.loads(line)
        if line["dir"] == "out":
            for word in re.findall(r"w\d{4}", line["line"]):
                out.setdefault(word, line["at"])
    through = {}
    for at, name, data in list(follower.events):
        if name == "message.delta":
            for word in re.findall(r"w\d{4}", data.get("text", "")):
                through.setdefault(word, at + offset)
    delays = sorted((through[word] - out[word]) * 1000 for word in out if word in through)
    assert len(delays) > DELTAS // 2, f"only {len(delays)} of {DELTAS} words arrived on both"
    cut = statistics.quantiles(delays, n=100)
    return f"p50 {cut[49]:.1f} ms, p99 {cut[98]:.1f} ms over {len(delays)} words"


def memory(bench, agent):
    """The resident memory of ctx before and after it ran an agent."""
    session = opened(bench)
    before = processes.resident_kib(bench.ctx.child.pid)
    for _ in range(5):
        ask(bench, session)
    after = processes.resident_kib(bench.ctx.child.pid)
    # The helper processes of ctx are included.
    program = str(bench.suite.ctx)
    helpers = [pid for pid, line in processes.of_home(bench.home(agent)).items() if line.startswith(program)]
    beside = sum(processes.resident_kib(pid) for pid in helpers)
    return f"{before / 1024:.1f} MiB before, {after / 1024:.1f} MiB after 5 prompts, {beside / 1024:.1f} MiB in {len(helpers)} helpers"


# Scenario → agents, model APIs that ctx requests directly, function.
ALL = {
    "switch": (["claude"], ("openai", "anthropic"), switch),
    "permission-kill": (["claude", "opencode"], ("openai",), permission_kill),
    "latency": (["claude"], ("openai",), latency),
    "memory": (["claude"], ("openai",), memory),
}


def rows():
    """One row per scenario and agent: (name, agent, model APIs, function)."""
    return [(name, by_name(agent), direct, act) for name, (agents, direct, act) in ALL.items() for agent in agents]
