"""Cells in which the agent requests a permission."""

import json
import time

import processes
from fake_model import answer_to
from cell_steps import CANCEL_SECONDS, EFFECT, LATE_SECONDS, after, ask, choose, opened, settle
from wire_formats import Say


def permission(bench, agent):
    """A permission that another client allows: the command runs once. A rejected one: it does not run."""
    session = opened(bench)
    other = session.by(bench.ctx.client())
    for kind, before in (("allow_once", 0), ("reject_once", 1)):
        mark, text = bench.mark()
        bench.model.script(mark, agent.shell(EFFECT), Say(answer_to(mark)))
        session.say(text)
        suspension = session.suspended()
        assert suspension["kind"] == "permission", suspension
        assert "effect.txt" in json.dumps(suspension), f"the suspension does not name the command: {json.dumps(suspension)[:400]}"
        assert bench.lines() == before, "the effect happened before the permission"
        choose(other, suspension, kind)
        settle(session, kind)
        assert bench.lines() == 1, f"after {kind} the effect happened {bench.lines()} times"
        bench.assert_each_text_once(bench.model.newest(mark))
    ask(bench, session)
    assert bench.lines() == 1, f"in the end the effect happened {bench.lines()} times"


def cancel_asking(bench, agent):
    """Cancelled during a permission request: the command does not run, and the next prompt works."""
    session = opened(bench)
    ask(bench, session)
    for _ in range(2):
        mark, text = bench.mark()
        bench.model.script(mark, agent.shell(EFFECT), Say(answer_to(mark)))
        session.say(text)
        session.suspended()
        session.cancel()
        info = session.idle(CANCEL_SECONDS)
        assert not info["suspensions"], "a suspension remains after its run"
        assert bench.lines() == 0, "the effect happened without a permission"
    return after(bench, session)


def kill_asking(bench, agent):
    """The agent is killed during a permission request: after the answer ctx restarts it and the work continues."""
    session = opened(bench)
    ask(bench, session)
    mark, text = bench.mark()
    bench.model.script(mark, agent.shell(EFFECT), agent.shell(EFFECT), Say(answer_to(mark)))
    session.say(text)
    suspension = session.suspended()
    # Unread output after the request must not make the process look alive.
    time.sleep(LATE_SECONDS)
    processes.kill(processes.of_home(bench.home(agent)))
    # Gives ctx time to notice the end of the process.
    deadline = time.monotonic() + 2.0
    while time.monotonic() < deadline:
        info = session.info()
        assert info["state"] == "suspended" and info["suspension"]["id"] == suspension["id"], f"the suspension is missing: {info['state']}"
        time.sleep(0.1)
    choose(session, suspension, "allow_once")
    asked = settle(session, "allow_once")
    assert bench.lines() == 1, f"the effect happened {bench.lines()} times"
    assert asked == 0, f"the agent asked {asked} more times for the same command"
    bench.assert_each_text_once(bench.model.newest(mark))
    ask(bench, session)
