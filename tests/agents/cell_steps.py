"""Building blocks of cells: prompts, waits, answers to suspensions, turns."""

import json

from fake_model import answer_to
from wire_formats import Say

# A cancellation waits up to 10 s for the agent's stop reason, then ends its process group.
CANCEL_SECONDS = 15.0
# Time in which agents send updates after a response or a permission request.
LATE_SECONDS = 2.0
SLOW = Say("This answer takes its time. " + "word " * 118 + "end.", delay=0.25)
EFFECT = "echo line >> effect.txt"


def opened(bench):
    """Starts ctx and creates a session in the cell's working directory."""
    bench.ctx.start()
    return bench.ctx.client().create(working_dir=str(bench.work))


def ask(bench, session, **fields):
    """Sends a prompt and asserts its answer and that the request contains every user text once."""
    mark, text = bench.mark()
    session.say(text, **fields)
    session.idle()
    answered(session, mark)
    bench.assert_each_text_once(bench.model.newest(mark))
    return mark


def answered(session, mark):
    """Asserts that the turn of a marker is completed and contains the model's answer."""
    turn = of_turn(session, mark)
    errors = parts(turn["messages"], "error")
    assert turn["status"] == "completed", f"the turn is {turn['status']}: {json.dumps(errors)[:400]}"
    assert answer_to(mark) in text_of(turn), f"the answer is {text_of(turn)[:200]!r}"
    return turn


def of_turn(session, mark):
    """The turn whose user text contains this marker."""
    for turn in session.turns():
        if mark in json.dumps([message["content"] for message in turn["messages"] if message["role"] == "user"]):
            return turn
    raise AssertionError(f"no turn contains {mark}")


def parts(messages, kind):
    return [part for message in messages for part in message["content"] if part["type"] == kind]


def text_of(turn):
    assistant = [message for message in turn["messages"] if message["role"] == "assistant"]
    return "".join(part["text"] for part in parts(assistant, "text"))


def settle(session, kind):
    """Answers each suspension with an option of this kind until the run ends or ctx asks. Returns their number."""
    asked = 0
    settled = lambda info: info["state"] == "suspended" or (info["state"] == "idle" and (info["pending_prompt"] or not info["waiting"]))
    while True:
        info = session.wait("idle or suspended", settled)
        if info["state"] == "idle":
            return asked
        choose(session, info["suspension"], kind)
        asked += 1
        assert asked < 10, "the agent repeats its request"


def choose(session, suspension, kind):
    option = next((option for option in suspension["options"] if option["kind"] == kind), None)
    assert option, f"no option of kind {kind} in {json.dumps(suspension)[:400]}"
    session.resume(suspension["id"], option["id"])
    gone = lambda info: all(each["id"] != suspension["id"] for each in info["suspensions"])
    session.wait("the suspension is consumed", gone, 30)


def start_slow_response(bench, session, answer=None):
    """Sends a prompt with a slow answer and waits until the answer has started."""
    mark, text = bench.mark()
    bench.model.script(mark, answer or SLOW)
    follower = session.follow()
    session.say(text)
    # Agents may send text of their own first.
    follower.wait_for_text("This answer takes")
    follower.close()
    return mark


def after(bench, session, forgettable=None):
    """Asserts that the next prompt works and its request has every text once, except one that the agent may drop."""
    mark, text = bench.mark()
    session.say(text)
    session.idle()
    answered(session, mark)
    newest = bench.model.newest(mark)
    bench.assert_each_text_once(newest, {forgettable} if forgettable else ())
    if forgettable and newest.count(forgettable) == 0:
        return "the agent drops a cancelled text"
    return None


def wire(bench, agent):
    path = bench.wire(agent)
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] if path.exists() else []


def opening_method(lines):
    """How the agent's conversation was opened: resume, load, session (pi) or new."""
    for line in lines:
        if line["dir"] == "start" and "--session" in line["line"]:
            return "session"
        for method in ("resume", "load", "new"):
            if line["dir"] == "in" and f'"session/{method}"' in line["line"]:
                # A rejected load is followed by a new conversation.
                if method == "load" and any('"session/new"' in each["line"] for each in lines if each["dir"] == "in"):
                    return "new"
                return method
        if line["dir"] == "in" and '"switch_session"' in line["line"]:
            return "session"
    return "new"
