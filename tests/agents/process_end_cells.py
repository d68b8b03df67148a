"""Cells in which a process ends and the conversation continues."""

import time

import processes
from cell_environment import LEFT_SECONDS
from fake_model import answer_to
from ctx_server import TIMEOUT
from cell_steps import EFFECT, LATE_SECONDS, ask, choose, of_turn, opened, parts, settle, start_slow_response, opening_method, wire
from wire_formats import Say

# Time in which processes of the previous server must end.
LEFTOVER_SECONDS = 20.0
# The cell sets `process_idle` to two seconds.
IDLE_SECONDS = 20.0
# Duration of the command that is killed; no other process sleeps for this number of seconds.
WORK_SECONDS = 37


def kill_agent(bench, agent):
    """All processes of the agent are killed during the response: the turn has an error, the next prompt restarts the agent."""
    session = opened(bench)
    ask(bench, session)
    mark = start_slow_response(bench, session)
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
    assert not set(before) & set(now), "the old process still runs"
    return f"{turn['status']}, {errors[0]['code']}"


def kill_idle(bench, agent):
    """The agent is killed between two prompts: the next prompt works without an error."""
    session = opened(bench)
    ask(bench, session)
    # Agents send updates after their response; these have arrived by now.
    time.sleep(LATE_SECONDS)
    processes.kill(processes.of_home(bench.home(agent)))
    left = bench.running_processes(LEFT_SECONDS)
    assert not left, f"still running: {list(left.values())}"
    ask(bench, session)


def kill_child(bench, agent):
    """The process below a wrapper is killed, not the wrapper: the run ends, and the next prompt works."""
    session = opened(bench)
    ask(bench, session)
    mark = start_slow_response(bench, session)
    wrapped = processes.below(processes.of_home(bench.home(agent)), agent.program)
    assert wrapped, "no process below the wrapper was found"
    processes.kill_each(wrapped)
    session.idle(60)
    turn = of_turn(session, mark)
    errors = parts(turn["messages"], "error")
    ask(bench, session)
    return f"{turn['status']}, {errors[0]['code'] if errors else 'no error'}"


def kill_ctx(bench, agent):
    """ctx is killed during the response: the agent's processes end, the turn is interrupted, the next prompt works."""
    session = opened(bench)
    ask(bench, session)
    mark = start_slow_response(bench, session)
    session = killed(bench, session)
    turn = of_turn(session, mark)
    assert turn["status"] == "interrupted", f"the turn is {turn['status']}"
    ask(bench, session)


def kill_working(bench, agent):
    """ctx is killed while a command runs: the command ends and is not repeated."""
    session = opened(bench)
    ask(bench, session)
    mark, text = bench.mark()
    # Some agents reject commands that contain `sleep`.
    (bench.work / "slow.sh").write_text(f"sleep {WORK_SECONDS}\n{EFFECT}\n", encoding="utf-8")
    bench.model.script(mark, agent.shell("sh slow.sh"), Say(answer_to(mark)))
    session.say(text)
    busy = lambda: any(line.startswith(f"sleep {WORK_SECONDS}") for line in processes.of_home(bench.home(agent)).values())
    end = time.monotonic() + TIMEOUT
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
    """Kills and restarts ctx and asserts that its agents ended. Returns the session for a new client."""
    before = bench.running_processes()
    bench.ctx.kill()
    bench.ctx.start()
    session = session.by(bench.ctx.client())
    session.idle(30)
    end = time.monotonic() + LEFTOVER_SECONDS
    while (left := set(before) & set(bench.running_processes())) and time.monotonic() < end:
        time.sleep(0.1)
    assert not left, f"left over: {[before[pid][:120] for pid in left]}"
    return session


def resume(bench, agent):
    """ctx is stopped and started: the next prompt continues the agent's own conversation."""
    session = opened(bench)
    ask(bench, session)
    mark, text = bench.mark()
    bench.model.script(mark, agent.shell(EFFECT), Say(answer_to(mark)))
    session.say(text)
    settle(session, "allow_once")
    bench.ctx.stop()
    left = bench.running_processes(5.0)
    assert not left, f"left over after a clean stop: {list(left.values())}"
    seen = len(wire(bench, agent))
    bench.ctx.start()
    session = session.by(bench.ctx.client())
    ask(bench, session)
    assert bench.lines() == 1, f"the effect happened {bench.lines()} times"
    how = opening_method(wire(bench, agent)[seen:])
    if how == "new" and not agent.may_refuse_load:
        raise AssertionError("ctx opened a new conversation instead of the existing one")
    return how


def idle(bench, agent):
    """An idle process is ended, and the next prompt continues the conversation."""
    session = opened(bench)
    ask(bench, session)
    left = bench.running_processes(IDLE_SECONDS)
    assert not left, f"still running: {list(left.values())}"
    seen = len(wire(bench, agent))
    ask(bench, session)
    how = opening_method(wire(bench, agent)[seen:])
    assert how != "new" or agent.may_refuse_load, "ctx opened a new conversation instead of the existing one"
    return how
