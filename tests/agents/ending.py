"""Cells in which a process ends, by itself or not, and the conversation goes on."""

import time

import processes
from model import answer_to
from steps import EFFECT, ask, of_turn, opened, parts, settle, slowly, taken_up, wire
from wires import Say

# A server that starts ends what the one before left behind.
LEFTOVER_SECONDS = 20.0
# With `process_idle` of two seconds.
IDLE_SECONDS = 20.0


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
