"""What cells are made of: saying, waiting, answering questions, reading turns."""

import json

from model import answer_to
from wires import Say

# Cancelling: 10 s for the agent's stop reason, then its process group is ended.
CANCEL_SECONDS = 15.0
# How long agents go on saying things after an answer or a question.
LATE_SECONDS = 2.0
SLOW = Say("This answer takes its time. " + "word " * 118 + "end.", delay=0.25)
EFFECT = "echo line >> effect.txt"


def opened(bench):
    """A ctx that runs, and a new session in the cell's working directory."""
    bench.ctx.start()
    return bench.ctx.client().create(working_dir=str(bench.work))


def ask(bench, session, **fields):
    """One prompt, answered, with every user text so far in the model's request once."""
    mark, text = bench.mark()
    session.say(text, **fields)
    session.idle()
    answered(session, mark)
    bench.once(bench.model.newest(mark))
    return mark


def answered(session, mark):
    """The turn of a marker ended well and holds the model's sentence about it."""
    turn = of_turn(session, mark)
    errors = parts(turn["messages"], "error")
    assert turn["status"] == "completed", f"the turn is {turn['status']}: {json.dumps(errors)[:400]}"
    assert answer_to(mark) in text_of(turn), f"the answer is {text_of(turn)[:200]!r}"
    return turn


def of_turn(session, mark):
    """The turn whose user text holds this marker."""
    for turn in session.turns():
        if mark in json.dumps([message["content"] for message in turn["messages"] if message["role"] == "user"]):
            return turn
    raise AssertionError(f"no turn holds {mark}")


def parts(messages, kind):
    return [part for message in messages for part in message["content"] if part["type"] == kind]


def text_of(turn):
    said = [message for message in turn["messages"] if message["role"] == "assistant"]
    return "".join(part["text"] for part in parts(said, "text"))


def settle(session, kind):
    """Answers each question of a kind until the run is over; how many there were."""
    asked = 0
    while True:
        info = session.wait("idle or suspended", lambda info: info["state"] == "suspended" or (info["state"] == "idle" and not info["waiting"]))
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
