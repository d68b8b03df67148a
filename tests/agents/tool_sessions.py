"""The same conversation in the forms of all tools that `ctx import` reads: two turns with reasoning, two calls, one of them failed.

The fixtures contain `{{WORK}}` for the working directory of the session.
"""

import dataclasses
import json
import pathlib
import sqlite3

FIXTURES = pathlib.Path(__file__).parent / "fixtures"
# The words of the fixtures that identify each text, in the order of the conversation. Reasoning is for its own provider only.
HISTORY = (
    *("question-one", "plan-one", "call-one", "result-one", "answer-one"),
    *("question-two", "call-two", "result-two", "answer-two"),
)
REASONING = ("thought-one", "thought-two")
# The result of the fixture `long-result`, larger than what ctx stores inside a record.
LONG_LINES = 300
LONG_RESULT = "\n".join(["begin-of-result", *(f"note {n:03d} of the folder" for n in range(LONG_LINES)), "result-one"])


@dataclasses.dataclass
class ToolSession:
    """A session of a tool. `path` is its place in the HOME of the tool; `more` are further files by their place."""

    tool: str
    fixture: str
    path: str
    more: dict = dataclasses.field(default_factory=dict)
    # Texts of the request besides the common ones.
    texts: tuple = ()
    # The working directory that the session names; otherwise that of the cell.
    work: str | None = None

    def write(self, home, work):
        """Writes the session into the HOME of the tool and returns its path."""
        place = home / self.path
        place.parent.mkdir(parents=True)
        text = (FIXTURES / self.fixture).read_text(encoding="utf-8")
        work = self.work or str(work)
        text = text.replace("{{WORK}}", work).replace('"{{RESULT}}"', json.dumps(LONG_RESULT))
        if self.fixture.endswith(".sql"):
            with sqlite3.connect(place) as database:
                database.executescript(text)
            database.close()
        else:
            place.write_text(text, encoding="utf-8")
        for path, document in self.more.items():
            (home / path).write_text(json.dumps(document).replace("{{WORK}}", work), encoding="utf-8")
        return place


KIMI = ".kimi-code/sessions/wd_work/session_notes"

ALL = {
    "claude-code": ToolSession("claude-code", "claude-code.jsonl", ".claude/projects/-work/5d1f2c3a-0b4e-4f6a-9c8d-112233445566.jsonl"),
    "codex": ToolSession("codex", "codex.jsonl", ".codex/sessions/2026/03/04/rollout-2026-03-04T10-00-00-01a1f000-1111-7222-8333-444455556666.jsonl"),
    "opencode": ToolSession("opencode", "opencode.sql", ".local/share/opencode/opencode.db"),
    "pi": ToolSession("pi", "pi.jsonl", ".pi/agent/sessions/--work--/2026-03-04T10-00-00-000Z_01a1f000-aaaa-7bbb-8ccc-ddddeeeeffff.jsonl"),
    "gemini-cli": ToolSession(
        "gemini-cli",
        "gemini-cli.jsonl",
        ".gemini/tmp/work/chats/session-2026-03-04T10-00-7a1b2c3d.jsonl",
        {".gemini/projects.json": {"projects": {"{{WORK}}": "work"}}},
    ),
    "qwen-code": ToolSession("qwen-code", "qwen-code.jsonl", ".qwen/projects/-work/chats/2b3c4d5e-6f70-4182-93a4-b5c6d7e8f901.jsonl"),
    "kimi-code": ToolSession(
        "kimi-code",
        "kimi-code.jsonl",
        f"{KIMI}/agents/main/wire.jsonl",
        {f"{KIMI}/state.json": {"id": "session_notes", "version": 2, "cwd": "{{WORK}}", "createdAt": 1772618400000, "archived": False}},
    ),
    "goose": ToolSession("goose", "goose.sql", ".local/share/goose/sessions/sessions.db"),
    "jsonl": ToolSession("jsonl", "jsonl.jsonl", "notes.jsonl"),
    # Not tools: a session of another machine, and a result of 7 kB, which must reach the provider to its end.
    "moved": ToolSession("jsonl", "jsonl.jsonl", "notes.jsonl", work="/nowhere/project"),
    "long-result": ToolSession("jsonl", "long-result.jsonl", "long-result.jsonl", texts=("begin-of-result", "note 000", f"note {LONG_LINES - 1}")),
}
