"""What every agent must support through ctx. A cell returns a note or None, and raises AssertionError on failure.

After each cell the newest request to the model contains every user text once, and the tool's effect happened once.
"""

import json
import time

from dialogue_cells import dialogues
from export_cells import export, export_foreign
from hook_cells import hooks
from permission_cells import cancel_asking, kill_asking, permission
from process_end_cells import idle, kill_agent, kill_child, kill_ctx, kill_idle, kill_working, resume
from fake_model import answer_to
from cell_steps import CANCEL_SECONDS, EFFECT, after, answered, ask, of_turn, opened, parts, settle, start_slow_response, text_of, wire
from wire_formats import Say

# Long enough to be steered, short enough for agents that wait for the end of the response.
BRISK = Say("This answer takes a little. " + "word " * 28 + "end.", delay=0.15)


def prompt(bench, agent):
    """Two prompts, both answered, in order."""
    session = opened(bench)
    first = ask(bench, session)
    second = ask(bench, session)
    texts = json.dumps(session.messages())
    assert texts.index(first) < texts.index(second), "the answers are out of order"


def tool(bench, agent):
    """A command runs once; the turn contains its call and result, the task a step."""
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
    assert task and task["steps"] >= 1, f"the task has no step: {json.dumps(task)[:300]}"
    bench.assert_each_text_once(bench.model.newest(mark))
    ask(bench, session)
    assert bench.lines() == 1, f"the effect happened {bench.lines()} times after another prompt"


def write(bench, agent):
    """A file that the agent writes with its own tool: complete, in the working directory, with a step in the task."""
    session = opened(bench)
    mark, text = bench.mark()
    path, content = bench.work / "sub" / "written.txt", "one\ntwo, ünïcode\n"
    bench.model.script(mark, agent.write(str(path), content), Say(answer_to(mark)))
    session.say(text)
    settle(session, "allow_once")
    turn = answered(session, mark)
    assert path.exists(), f"nothing was written: {json.dumps(parts(turn['messages'], 'tool_result'))[:400]}"
    assert path.read_text(encoding="utf-8") == content, f"it holds {path.read_text(encoding='utf-8')!r}"
    calls = parts(turn["messages"], "tool_call")
    assert any(call["status"] == "completed" for call in calls), f"the calls are {json.dumps(calls)[:400]}"
    task = session.info()["task"]
    assert task and task["steps"] >= 1, f"the task has no step: {json.dumps(task)[:300]}"
    bench.assert_each_text_once(bench.model.newest(mark))


def own_tools(bench, agent):
    """The agent calls the ctx tool ask_user: the session is idle and its task awaits the user with that question."""
    session = opened(bench)
    mark, text = bench.mark()
    question = "Which colour shall it be?"
    bench.model.script(mark, *agent.own("ask_user", {"question": question}), Say(answer_to(mark)))
    session.say(text)
    settle(session, "allow_once")
    answered(session, mark)
    state = session.info()["task"]["state"]
    assert state["name"] == "awaiting_user" and question in json.dumps(state), f"the task is {json.dumps(state)[:300]}"
    ask(bench, session)


def cancel(bench, agent):
    """Cancelled during the model's response: the text so far is kept, and the next prompt works."""
    session = opened(bench)
    ask(bench, session)
    mark = start_slow_response(bench, session)
    began = time.monotonic()
    session.cancel()
    session.idle(CANCEL_SECONDS)
    took = time.monotonic() - began
    turn = of_turn(session, mark)
    assert turn["status"] == "cancelled", f"the turn is {turn['status']}"
    assert "This answer" in text_of(turn), f"the text before the cancellation is lost: {text_of(turn)[:100]!r}"
    note = after(bench, session, mark if agent.forgets_cancelled else None)
    starts = sum(line["dir"] == "start" for line in wire(bench, agent))
    return note or f"{took:.2f} s, the process was {'kept' if starts == 1 else 'replaced'}"


def two(bench, agent):
    """Two simultaneous sessions, each with its own conversation and directory, do not mix."""
    first = opened(bench)
    # Some agents initialize their HOME at the first start and fail if two start at the same time.
    ask(bench, first)
    other = bench.work / "other"
    other.mkdir()
    second = bench.ctx.client().create(working_dir=str(other))
    marks = {first: list(bench.marks), second: []}
    for _ in range(2):
        sent = []
        for session in (first, second):
            mark, text = bench.mark()
            marks[session].append(mark)
            session.say(text)
            sent.append((session, mark))
        for session, mark in sent:
            session.idle()
            answered(session, mark)
            newest = bench.model.newest(mark)
            wrong = {each: newest.count(each) for each in bench.marks if newest.count(each) != (each in marks[session])}
            assert not wrong, f"request {newest.number} of model.jsonl mixes the two sessions: {wrong}"


def fork(bench, agent):
    """A fork on the same agent knows the earlier texts; later texts reach only their own branch."""
    session = opened(bench)
    ask(bench, session)
    ask(bench, session)
    before = list(bench.marks)
    branch = session.fork()
    apart = ask(bench, branch)
    bench.marks = before
    mark = ask(bench, session)
    assert bench.model.newest(mark).count(apart) == 0, "the session contains a text of its fork"


def steer(bench, agent):
    """A steering text reaches the current run; both texts are in one turn, once."""
    session = opened(bench)
    ask(bench, session)
    first = start_slow_response(bench, session, BRISK)
    second, text = bench.mark("Consider this as well.")
    session.say(text, queue_mode="steer")
    session.idle()
    turn = of_turn(session, first)
    assert turn["status"] == "completed", f"the turn is {turn['status']}"
    assert of_turn(session, second)["id"] == turn["id"], "the steering text became a turn of its own"
    bench.assert_each_text_once(bench.model.newest(second))
    ask(bench, session)


ALL = {
    "prompt": prompt,
    "tool": tool,
    "write": write,
    "own-tools": own_tools,
    "permission": permission,
    "cancel": cancel,
    "cancel-asking": cancel_asking,
    "steer": steer,
    "kill-agent": kill_agent,
    "kill-idle": kill_idle,
    "kill-asking": kill_asking,
    "kill-child": kill_child,
    "kill-ctx": kill_ctx,
    "kill-working": kill_working,
    "resume": resume,
    "idle": idle,
    "two": two,
    "fork": fork,
    "dialogues": dialogues,
    "hooks": hooks,
    "export": export,
    "export-foreign": export_foreign,
}

# Shorter timeouts of ctx for some cells.
CLOCKS = {"idle": {"process_idle": "2s"}}
