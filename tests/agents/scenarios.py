"""More than one agent, or more than one thing: each is a row of its own in the report."""

import difflib
import json
import re
import statistics
import time

import processes
from agents import named
from bench import HERE, LEFT_SECONDS
from steps import EFFECT, answered, ask, choose, opened, settle
from model import answer_to
from wires import Say

SNAPSHOTS = HERE / "snapshots"
DELTAS = 400


def switch(bench, agent):
    """openai → claude → openai → claude → a fork of it on anthropic: everything is there once, and the requests are these."""
    session = opened(bench)
    requests = []
    for provider in ("openai", "claude", "openai", "claude"):
        mark = works(bench, agent, session) if provider == "claude" else ask(bench, session, provider_id=provider)
        requests.append((provider, bench.model.newest(mark)))
    fork = session.fork()
    mark = ask(bench, fork, provider_id="anthropic")
    requests.append(("a fork, anthropic", bench.model.newest(mark)))
    assert bench.lines() == 2, f"two commands were asked for, {bench.lines()} ran"
    return compare("switch", [{"on": on, "conversation": normal(request, bench)} for on, request in requests])


def works(bench, agent, session):
    """A prompt for which the agent runs a command."""
    mark, text = bench.mark()
    bench.model.script(mark, agent.shell(EFFECT), Say(answer_to(mark)))
    session.say(text, provider_id=agent.name)
    settle(session, "allow_once")
    answered(session, mark)
    bench.once(bench.model.newest(mark))
    return mark


def normal(request, bench):
    """What the user and the agents said in a request, without what changes from run to run."""
    text = json.dumps([plain(item) for item in request.conversation if plain(item)], ensure_ascii=False)
    for n, mark in enumerate(bench.marks):
        text = text.replace(mark, f"mark-{n + 1}").replace(mark.removeprefix("mark"), f"mark {n + 1}")
    text = text.replace(str(bench.work), "WORK")
    text = re.sub(r"\b\d{4}-\d\d-\d\d(T[\d:.]+Z)?", "DATE", text)
    text = re.sub(r"\btoolu_\d+|\bcall_\d+", "CALL", text)
    return json.loads(text)


def plain(item):
    """Role, texts, calls and results of one message; an agent's own preamble is not ours to pin down."""
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
    if known != text:
        path.with_suffix(".new.json").write_text(text, encoding="utf-8")
        change = "\n".join(list(difflib.unified_diff(known.splitlines(), text.splitlines(), "known", "now", lineterm="", n=1))[:30])
        raise AssertionError(f"the requests changed (delete {path.name} to take the new ones):\n{change}")
    return "as the snapshot"


def permission_kill(bench, agent):
    """A permission waits across kill -9 of ctx, another client answers it, and the work goes on."""
    session = opened(bench)
    ask(bench, session)
    session = waits_across_a_kill(bench, agent, session, "allow_once", [agent.shell(EFFECT)])
    settle_none(session)
    assert bench.lines() == 1, f"allowed once, the effect happened {bench.lines()} times"
    bench.once(bench.model.newest())
    # The agent comes back with another command: what was allowed does not cover it.
    session = waits_across_a_kill(bench, agent, session, "allow_once", [agent.shell("echo other >> other.txt")])
    again = session.suspended()
    assert "other.txt" in json.dumps(again), f"it does not ask about the changed command: {json.dumps(again)[:300]}"
    assert bench.lines("other.txt") == 0, "the changed command ran without a question"
    choose(session, again, "allow_once")
    settle_none(session)
    assert (bench.lines(), bench.lines("other.txt")) == (1, 1), f"effects: {bench.lines()}, {bench.lines('other.txt')}"
    # Rejected, and the agent tries the same again: that is decided already.
    session = waits_across_a_kill(bench, agent, session, "reject_once", [agent.shell(EFFECT)])
    settle_none(session)
    assert bench.lines() == 1, "what was rejected was done"
    ask(bench, session)


def waits_across_a_kill(bench, agent, session, kind, then):
    """Suspends, kills ctx, starts it, and lets another client decide; `then` is what the model does when it is told."""
    mark, text = bench.mark()
    bench.model.script(mark, agent.shell(EFFECT), *then, Say(answer_to(mark)))
    session.say(text)
    asked = session.suspended()
    done = bench.lines()
    bench.ctx.kill()
    left = bench.left(LEFT_SECONDS)
    assert not left, f"an agent outlived the kill and could still run it: {list(left.values())}"
    bench.ctx.start()
    session = session.by(bench.ctx.client())
    waiting = session.wait("the permission still waits", lambda info: info["suspension"] is not None, 30)["suspension"]
    assert waiting["id"] == asked["id"], "it is another suspension"
    assert bench.lines() == done, "the effect happened while nobody had allowed it"
    choose(session.by(bench.ctx.client()), waiting, kind)
    return session


def settle_none(session):
    asked = settle(session, "allow_once")
    assert asked == 0, f"it asked again {asked} times for the same command"


def latency(bench, agent):
    """How much later a delta comes through ctx than out of the agent's own pipe."""
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
    assert len(delays) > DELTAS // 2, f"only {len(delays)} of {DELTAS} words came both ways"
    cut = statistics.quantiles(delays, n=100)
    return f"p50 {cut[49]:.1f} ms, p99 {cut[98]:.1f} ms over {len(delays)} words"


def memory(bench, agent):
    """What ctx itself holds in memory before and after it ran an agent."""
    session = opened(bench)
    before = processes.resident_kib(bench.ctx.child.pid)
    for _ in range(5):
        ask(bench, session)
    after = processes.resident_kib(bench.ctx.child.pid)
    # What ctx starts beside an agent is ctx too.
    program = str(bench.suite.ctx)
    helpers = [pid for pid, line in processes.of_home(bench.home(agent)).items() if line.startswith(program)]
    beside = sum(processes.resident_kib(pid) for pid in helpers)
    return f"{before / 1024:.1f} MiB before, {after / 1024:.1f} MiB after 5 prompts, {beside / 1024:.1f} MiB in {len(helpers)} helpers"


# Scenario → the agents that it is run with, the models that ctx asks itself, what it does.
ALL = {
    "switch": (["claude"], ("openai", "anthropic"), switch),
    "permission-kill": (["claude", "opencode"], ("openai",), permission_kill),
    "latency": (["claude"], ("openai",), latency),
    "memory": (["claude"], ("openai",), memory),
}


def rows():
    """Every scenario with one agent each: (name, agent, models, function)."""
    return [(name, named(agent), direct, act) for name, (agents, direct, act) in ALL.items() for agent in agents]
