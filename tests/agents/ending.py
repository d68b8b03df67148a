"""Cells in which a process ends, by itself or not, and the conversation goes on."""

import time

import processes
from bench import LEFT_SECONDS
from model import answer_to
from server import PATIENCE
from steps import EFFECT, LATE_SECONDS, ask, choose, of_turn, opened, parts, settle, slowly, taken_up, wire
from wires import Say

# A server that starts ends what the one before left behind.
LEFTOVER_SECONDS = 20.0
# With `process_idle` of two seconds.
IDLE_SECONDS = 20.0
# How long the command works that is killed at it; a number that no other process sleeps.
WORK_SECONDS = 37


def kill_agent(bench, agent):
    """All of the agent's processes are killed in mid-answer: the turn tells, and the next prompt starts it anew."""
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


def kill_idle(bench, agent):
    """The agent is killed while nobody asks it anything: the next prompt does not even notice."""
    session = opened(bench)
    ask(bench, session)
    # Agents say things after their answer; whatever comes late has come by now.
    time.sleep(LATE_SECONDS)
    processes.kill(processes.of_home(bench.home(agent)))
    left = bench.left(LEFT_SECONDS)
    assert not left, f"it lives: {list(left.values())}"
    ask(bench, session)


def kill_child(bench, agent):
    """What a wrapper runs is killed, not the wrapper: the run ends, and the next prompt works."""
    session = opened(bench)
    ask(bench, session)
    mark = slowly(bench, session)
    wrapped = processes.below(processes.of_home(bench.home(agent)), agent.program)
    assert wrapped, "no process below the wrapper was found"
    processes.kill_each(wrapped)
    session.idle(60)
    turn = of_turn(session, mark)
    errors = parts(turn["messages"], "error")
    ask(bench, session)
    return f"{turn['status']}, {errors[0]['code'] if errors else 'no error'}"


def kill_ctx(bench, agent):
    """ctx is killed in mid-answer: nothing of the agent is left, the turn stands as interrupted, and the next prompt goes on."""
    session = opened(bench)
    ask(bench, session)
    mark = slowly(bench, session)
    session = killed(bench, session)
    turn = of_turn(session, mark)
    assert turn["status"] == "interrupted", f"the turn is {turn['status']}"
    ask(bench, session)


def kill_working(bench, agent):
    """ctx is killed while a command runs: the command goes too, and is not run again by itself."""
    session = opened(bench)
    ask(bench, session)
    mark, text = bench.mark()
    # Some agents refuse a command that they see sleeping.
    (bench.work / "slow.sh").write_text(f"sleep {WORK_SECONDS}\n{EFFECT}\n", encoding="utf-8")
    bench.model.script(mark, agent.shell("sh slow.sh"), Say(answer_to(mark)))
    session.say(text)
    busy = lambda: any(line.startswith(f"sleep {WORK_SECONDS}") for line in processes.of_home(bench.home(agent)).values())
    end = time.monotonic() + PATIENCE
    while not busy():
        info = session.info()
        if info["suspension"]:
            choose(session, info["suspension"], "allow_once")
        assert time.monotonic() < end and info["state"] != "idle", f"the command never ran: {session.last_words()}"
        time.sleep(0.05)
    session = killed(bench, session)
    turn = of_turn(session, mark)
    assert turn["status"] == "interrupted", f"the turn is {turn['status']}"
    ask(bench, session)
    assert bench.lines() == 0, f"the command that was killed took effect {bench.lines()} times"


def killed(bench, session):
    """Kills ctx, starts it again and sees that nothing of its agents is left; the session for a new client."""
    before = bench.left()
    bench.ctx.kill()
    bench.ctx.start()
    session = session.by(bench.ctx.client())
    session.idle(30)
    end = time.monotonic() + LEFTOVER_SECONDS
    while (left := set(before) & set(bench.left())) and time.monotonic() < end:
        time.sleep(0.1)
    assert not left, f"left over: {[before[pid][:120] for pid in left]}"
    return session


def resume(bench, agent):
    """ctx is stopped and started: the next prompt goes on with the agent's own conversation."""
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
