"""What every agent must do through ctx. A cell returns a note or nothing, and raises AssertionError where it fails.

After each cell the model's newest request holds every earlier user text once, and the tool's effect happened once on disk.
"""

import json
import time

import processes
from model import answer_to
from wires import Say

# Cancelling: 10 s for the agent's stop reason, then its process group is ended.
CANCEL_SECONDS = 15.0
# A server that starts ends what the one before left behind.
LEFTOVER_SECONDS = 20.0
# With `process_idle` of two seconds.
IDLE_SECONDS = 20.0
SLOW = Say("This answer takes its time. " + "word " * 118 + "end.", delay=0.25)
# Long enough to be steered, short enough for an agent that lets the model finish first.
BRISK = Say("This answer takes a little. " + "word " * 28 + "end.", delay=0.15)
EFFECT = "echo line >> effect.txt"


def parts(messages, kind):
    return [part for message in messages for part in message["content"] if part["type"] == kind]


def of_turn(session, mark):
    """The turn whose user text holds this marker."""
    for turn in session.turns():
        if mark in json.dumps([message["content"] for message in turn["messages"] if message["role"] == "user"]):
            return turn
    raise AssertionError(f"no turn holds {mark}")


def text_of(turn):
    said = [message for message in turn["messages"] if message["role"] == "assistant"]
    return "".join(part["text"] for part in parts(said, "text"))


def answered(session, mark):
    """The turn of a marker ended well and holds the model's sentence about it."""
    turn = of_turn(session, mark)
    errors = parts(turn["messages"], "error")
    assert turn["status"] == "completed", f"the turn is {turn['status']}: {json.dumps(errors)[:400]}"
    assert answer_to(mark) in text_of(turn), f"the answer is {text_of(turn)[:200]!r}"
    return turn


def ask(bench, session, **fields):
    """One prompt, answered, with every user text so far in the model's request once."""
    mark, text = bench.mark()
    session.say(text, **fields)
    session.idle()
    answered(session, mark)
    bench.once(bench.model.newest(mark))
    return mark


def settle(session, kind):
    """Answers each question of a kind until the run is over; how many there were."""
    asked = 0
    while True:
        info = session.wait("idle or suspended", lambda info: info["state"] in ("idle", "suspended") and not (info["state"] == "idle" and info["waiting"]))
        if info["state"] == "idle":
            return asked
        choose(session, info["suspension"], kind)
        asked += 1
        assert asked < 10, "it asks again and again"


def choose(session, suspension, kind):
    option = next((option for option in suspension["options"] if option["kind"] == kind), None)
    assert option, f"no option of kind {kind} in {json.dumps(suspension)[:400]}"
    session.resume(suspension["id"], option["id"])
    gone = lambda info: all(each["id"] != suspension["id"] for each in info["suspensions"])
    session.wait("the suspension is consumed", gone, 30)


def prompt(bench, agent):
    session = opened(bench)
    first = ask(bench, session)
    second = ask(bench, session)
    texts = json.dumps(session.messages())
    assert texts.index(first) < texts.index(second), "the two are out of order"


def tool(bench, agent):
    session = opened(bench)
    ask(bench, session)
    mark, text = bench.mark()
    bench.model.script(mark, agent.shell(EFFECT), Say(answer_to(mark)))
    session.say(text)
    settle(session, "allow_once")
    turn = answered(session, mark)
    assert bench.lines() == 1, f"the effect happened {bench.lines()} times"
    calls = parts(turn["messages"], "tool_call")
    results = parts(turn["messages"], "tool_result")
    assert any("effect.txt" in json.dumps(call) for call in calls), f"no tool call in the turn: {json.dumps(turn['messages'])[:500]}"
    ids = {call["id"] for call in calls}
    assert any(result["tool_call_id"] in ids for result in results), f"no result of the call in the turn: {json.dumps(results)[:300]}"
    task = session.info()["task"]
    assert task and task["steps"] >= 1, f"nothing was observed into the task: {json.dumps(task)[:300]}"
    bench.once(bench.model.newest(mark))
    ask(bench, session)
    assert bench.lines() == 1, f"the effect happened {bench.lines()} times after another prompt"


def permission(bench, agent):
    session = opened(bench)
    other = session.by(bench.ctx.client())
    for kind, effects in (("allow_once", 1), ("reject_once", 1)):
        mark, text = bench.mark()
        bench.model.script(mark, agent.shell(EFFECT), Say(answer_to(mark)))
        session.say(text)
        suspension = session.suspended()
        before = 0 if kind == "allow_once" else 1
        assert suspension["kind"] == "permission", suspension
        assert "effect.txt" in json.dumps(suspension), f"it does not say what is asked: {json.dumps(suspension)[:400]}"
        assert bench.lines() == before, "the effect happened before it was allowed"
        choose(other, suspension, kind)
        settle(session, kind)
        assert bench.lines() == effects, f"after {kind} the effect happened {bench.lines()} times"
        bench.once(bench.model.newest(mark))
    ask(bench, session)
    assert bench.lines() == 1, f"in the end the effect happened {bench.lines()} times"


def slowly(bench, session, answer=None):
    """A prompt whose answer is under way."""
    mark, text = bench.mark()
    bench.model.script(mark, answer or SLOW)
    follower = session.follow()
    session.say(text)
    # Agents may say something of their own first.
    follower.hears("This answer takes")
    follower.close()
    return mark


def cancel(bench, agent):
    session = opened(bench)
    ask(bench, session)
    mark = slowly(bench, session)
    began = time.monotonic()
    session.cancel()
    session.idle(CANCEL_SECONDS)
    took = time.monotonic() - began
    turn = of_turn(session, mark)
    assert turn["status"] == "cancelled", f"the turn is {turn['status']}"
    assert "This answer" in text_of(turn), f"what was said before the cancel is lost: {text_of(turn)[:100]!r}"
    return after(bench, session, mark if agent.forgets_cancelled else None) or f"{took:.2f} s"


def after(bench, session, forgettable=None):
    """The next prompt works and has everything once; an agent that drops a cancelled text itself is forgiven that one."""
    mark, text = bench.mark()
    session.say(text)
    session.idle()
    answered(session, mark)
    newest = bench.model.newest(mark)
    bench.once(newest, {forgettable} if forgettable else ())
    if forgettable and newest.count(forgettable) == 0:
        return "it drops a cancelled text itself"
    return None


def cancel_asking(bench, agent):
    """Cancelled while it waits for a person: nothing happens, and it can be asked again."""
    session = opened(bench)
    ask(bench, session)
    for _ in range(2):
        mark, text = bench.mark()
        bench.model.script(mark, agent.shell(EFFECT), Say(answer_to(mark)))
        session.say(text)
        session.suspended()
        session.cancel()
        info = session.idle(CANCEL_SECONDS)
        assert not info["suspensions"], "a suspension outlived its run"
        assert bench.lines() == 0, "the effect happened though nobody allowed it"
    return after(bench, session)


def kill_asking(bench, agent):
    """The agent is killed while a permission waits: the answer finds it gone, ctx takes the conversation up and the work goes on."""
    session = opened(bench)
    ask(bench, session)
    mark, text = bench.mark()
    bench.model.script(mark, agent.shell(EFFECT), agent.shell(EFFECT), Say(answer_to(mark)))
    session.say(text)
    suspension = session.suspended()
    processes.kill(processes.of_home(bench.home(agent)))
    # Whatever notices that the process is gone has time to.
    deadline = time.monotonic() + 2.0
    while time.monotonic() < deadline:
        info = session.info()
        assert info["state"] == "suspended" and info["suspension"]["id"] == suspension["id"], f"the question is gone: {info['state']}"
        time.sleep(0.1)
    choose(session, suspension, "allow_once")
    asked = settle(session, "allow_once")
    assert bench.lines() == 1, f"the effect happened {bench.lines()} times"
    assert asked == 0, f"it asked {asked} times more for the same command"
    bench.once(bench.model.newest(mark))
    ask(bench, session)


def idle(bench, agent):
    """A process that nobody needs ends by itself, and the next prompt takes the conversation up."""
    session = opened(bench)
    ask(bench, session)
    left = bench.left(IDLE_SECONDS)
    assert not left, f"it still runs: {list(left.values())}"
    seen = len(wire(bench, agent))
    ask(bench, session)
    how = taken_up(wire(bench, agent)[seen:])
    assert how != "new" or agent.may_refuse_load, "it began a new conversation with the agent instead of the one it had"
    return how


def two(bench, agent):
    """Two sessions at once, each with its own conversation and directory; neither hears of the other."""
    first = opened(bench)
    # Some agents set their home up in the first start, and two at once fall over each other.
    ask(bench, first)
    other = bench.work / "other"
    other.mkdir()
    second = bench.ctx.client().create(working_dir=str(other))
    marks = {first: list(bench.marks), second: []}
    for _ in range(2):
        said = []
        for session in (first, second):
            mark, text = bench.mark()
            marks[session].append(mark)
            session.say(text)
            said.append((session, mark))
        for session, mark in said:
            session.idle()
            answered(session, mark)
            newest = bench.model.newest(mark)
            wrong = {each: newest.count(each) for each in bench.marks if newest.count(each) != (each in marks[session])}
            assert not wrong, f"request {newest.number} of model.jsonl mixes the two sessions: {wrong}"


def fork(bench, agent):
    """A fork goes on by itself on the same agent: it knows what was said before, and neither hears what the other is told."""
    session = opened(bench)
    ask(bench, session)
    ask(bench, session)
    before = list(bench.marks)
    branch = session.fork()
    apart = ask(bench, branch)
    bench.marks = before
    mark = ask(bench, session)
    assert bench.model.newest(mark).count(apart) == 0, "the session heard what only its fork was told"


def steer(bench, agent):
    """A text that reaches the run that is under way; both are there once, in one turn."""
    session = opened(bench)
    ask(bench, session)
    first = slowly(bench, session, BRISK)
    second, text = bench.mark("And mind this as well.")
    session.say(text, queue_mode="steer")
    session.idle()
    turn = of_turn(session, first)
    assert turn["status"] == "completed", f"the turn is {turn['status']}"
    assert of_turn(session, second)["id"] == turn["id"], "the steering text became a turn of its own"
    bench.once(bench.model.newest(second))
    ask(bench, session)


def kill_agent(bench, agent):
    session = opened(bench)
    ask(bench, session)
    mark = slowly(bench, session)
    before = processes.of_home(bench.home(agent))
    assert before, "no process of the agent was found"
    processes.kill(before)
    session.idle(30)
    assert bench.ctx.alive(), "ctx died with its agent"
    turn = of_turn(session, mark)
    errors = parts(turn["messages"], "error")
    assert errors, f"no error part in the turn ({turn['status']})"
    ask(bench, session)
    now = processes.of_home(bench.home(agent))
    assert not set(before) & set(now), "the old process lives"
    return f"{turn['status']}, {errors[0]['code']}"


def kill_ctx(bench, agent):
    session = opened(bench)
    ask(bench, session)
    mark = slowly(bench, session)
    before = processes.of_home(bench.home(agent))
    bench.ctx.kill()
    bench.ctx.start()
    session = session.by(bench.ctx.client())
    session.idle(30)
    end = time.monotonic() + LEFTOVER_SECONDS
    while (left := set(before) & set(processes.of_home(bench.home(agent)))) and time.monotonic() < end:
        time.sleep(0.1)
    assert not left, f"left over: {[before[pid][:120] for pid in left]}"
    turn = of_turn(session, mark)
    assert turn["status"] == "interrupted", f"the turn is {turn['status']}"
    ask(bench, session)


def resume(bench, agent):
    session = opened(bench)
    ask(bench, session)
    mark, text = bench.mark()
    bench.model.script(mark, agent.shell(EFFECT), Say(answer_to(mark)))
    session.say(text)
    settle(session, "allow_once")
    bench.ctx.stop()
    left = bench.left(5.0)
    assert not left, f"left over after a clean stop: {list(left.values())}"
    seen = len(wire(bench, agent))
    bench.ctx.start()
    session = session.by(bench.ctx.client())
    ask(bench, session)
    assert bench.lines() == 1, f"the effect happened {bench.lines()} times"
    how = taken_up(wire(bench, agent)[seen:])
    if how == "new" and not agent.may_refuse_load:
        raise AssertionError("it began a new conversation with the agent instead of the one it had")
    return how


def wire(bench, agent):
    path = bench.wire(agent)
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] if path.exists() else []


def taken_up(lines):
    """How a conversation was opened with the agent: resume, load, session (pi) or new."""
    for line in lines:
        if line["dir"] == "start" and "--session" in line["line"]:
            return "session"
        for method in ("resume", "load", "new"):
            if line["dir"] == "in" and f'"session/{method}"' in line["line"]:
                # One that is refused is followed by another.
                if method == "load" and any('"session/new"' in each["line"] for each in lines if each["dir"] == "in"):
                    return "new"
                return method
        if line["dir"] == "in" and '"switch_session"' in line["line"]:
            return "session"
    return "new"


def opened(bench):
    """A ctx that runs, and a new session in the cell's working directory."""
    bench.ctx.start()
    return bench.ctx.client().create(working_dir=str(bench.work))


ALL = {
    "prompt": prompt,
    "tool": tool,
    "permission": permission,
    "cancel": cancel,
    "cancel-asking": cancel_asking,
    "steer": steer,
    "kill-agent": kill_agent,
    "kill-asking": kill_asking,
    "kill-ctx": kill_ctx,
    "resume": resume,
    "idle": idle,
    "two": two,
    "fork": fork,
}

# Cells that need ctx to be less patient.
CLOCKS = {"idle": {"process_idle": "2s"}}
