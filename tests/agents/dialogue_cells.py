"""The dialogues of crates/ctx/tests/app/http/dialogues/table.json with a real agent.

The agent receives every message of the user exactly once and in order, and the task and its commits are as the table
says.
"""

import json
import pathlib

import processes
from cell_steps import EFFECT, settle, wire
from wire_formats import Say

TABLE = pathlib.Path(__file__).parents[2] / "crates/ctx/tests/app/http/dialogues/table.json"
# Fails: the agent is killed during this answer.
CUT_OFF = Say("This answer takes its time. " + "word " * 118 + "end.", delay=0.25)


def dialogues(bench, agent):
    """Ten dialogues, each in a session of its own."""
    bench.ctx.environment["CTX_DEFAULTS_ON_NEW_TASK"] = "ask"
    bench.ctx.start()
    client = bench.ctx.client()
    rows = 0
    for dialogue in json.loads(TABLE.read_text(encoding="utf-8")):
        here = bench.work / dialogue["name"].replace(" ", "-")
        here.mkdir()
        session = client.create(working_dir=str(here))
        expected, sent = [], len(prompts(bench, agent))
        for row in dialogue["rows"]:
            at = f"{dialogue['name']}: {json.dumps(row, ensure_ascii=False)}"
            before = len(prompts(bench, agent))
            play(bench, agent, session, row)
            expected += row["commits"]
            info = session.info()
            task = info["task"] and info["task"]["state"]["name"]
            assert task == row["state"], f"{at}: the task is {task}; {session.last_words()}"
            found = commits(client, info["id"])
            assert found == expected, f"{at}: the commits are {found}"
            received = len(prompts(bench, agent)) - before
            assert received == (0 if row["reply"] == "nothing" else 1), f"{at}: the agent received {received} prompts"
            rows += 1
        received = [last_text(prompt) for prompt in prompts(bench, agent)[sent:]]
        delivered = [text for row in dialogue["rows"] for kind, text in row["message"].items() if kind in ("to", "held")]
        assert received == delivered, f"{dialogue['name']}: the agent received {received}"
    return f"{rows} messages"


def play(bench, agent, session, row):
    """Sends one message and waits until its run has ended."""
    (text,) = row["message"].values()
    reply = row["reply"]
    if reply == "fails":
        bench.model.script_next(CUT_OFF)
        follower = session.follow()
        session.say(text)
        follower.wait_for_text("This answer takes")
        follower.close()
        processes.kill(processes.of_home(bench.home(agent)))
    elif reply == "nothing":
        session.say(text)
    elif "works" in reply:
        bench.model.script_next(agent.shell(EFFECT), Say(reply["works"]))
        session.say(text)
    else:
        bench.model.script_next(Say(reply["says"]))
        session.say(text)
    settle(session, "allow_once")
    bench.model.script_next()


def commits(client, session):
    """The types of a session's commits, oldest first."""
    listed = client.get("/api/commits?limit=1000")["commits"]
    return [commit["commit_type"]["name"] for commit in reversed(listed) if commit["session"] == session]


def prompts(bench, agent):
    """The prompts that ctx sent to the agent."""
    sent = [json.loads(line["line"]) for line in wire(bench, agent) if line["dir"] == "in"]
    return [each for each in sent if each.get("method") == "session/prompt" or each.get("type") == "prompt"]


def last_text(prompt):
    """The user's message: the last block of a prompt. The text before it tells what was cut off."""
    if "message" in prompt:
        return prompt["message"].split("</cut-off>\n\n")[-1]
    return prompt["params"]["prompt"][-1]["text"]
