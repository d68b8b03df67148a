"""Cells in which the agent asks a person for permission."""

import json
import time

import processes
from model import answer_to
from steps import CANCEL_SECONDS, EFFECT, LATE_SECONDS, after, ask, choose, opened, settle
from wires import Say


def permission(bench, agent):
    """Asked, allowed by another client: done once. Asked again, rejected: not done."""
    session = opened(bench)
    other = session.by(bench.ctx.client())
    for kind, before in (("allow_once", 0), ("reject_once", 1)):
        mark, text = bench.mark()
        bench.model.script(mark, agent.shell(EFFECT), Say(answer_to(mark)))
        session.say(text)
        suspension = session.suspended()
        assert suspension["kind"] == "permission", suspension
        assert "effect.txt" in json.dumps(suspension), f"it does not say what is asked: {json.dumps(suspension)[:400]}"
        assert bench.lines() == before, "the effect happened before it was allowed"
        choose(other, suspension, kind)
        settle(session, kind)
        assert bench.lines() == 1, f"after {kind} the effect happened {bench.lines()} times"
        bench.once(bench.model.newest(mark))
    ask(bench, session)
    assert bench.lines() == 1, f"in the end the effect happened {bench.lines()} times"


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
    # What an agent says after its question, and nobody reads, must not make it look alive.
    time.sleep(LATE_SECONDS)
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
