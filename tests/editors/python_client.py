"""A client of ctx acp with the SDK for Python: python_client.py ACTION DIR [ARGUMENT]. Prints one JSON document."""

import asyncio
import json
import os
import sys

import acp
from acp.schema import AllowedOutcome, RequestPermissionResponse


class Editor(acp.Client):
    """Collects the text of the agent and allows what it is asked."""

    def __init__(self):
        self.text, self.users, self.asked = "", "", 0
        self.changed = asyncio.Event()

    async def session_update(self, session_id, update, **_):
        kind = getattr(update, "session_update", None)
        content = getattr(update, "content", None)
        if kind == "agent_message_chunk":
            self.text += content.text
        elif kind == "user_message_chunk":
            self.users += content.text
        self.changed.set()

    async def request_permission(self, session_id, tool_call, options, **_):
        self.asked += 1
        allow = next(option for option in options if option.kind == "allow_once")
        return RequestPermissionResponse(outcome=AllowedOutcome(outcome="selected", option_id=allow.option_id))

    async def wait_for(self, part):
        while part not in self.text:
            self.changed.clear()
            await self.changed.wait()


async def main(action, directory, argument):
    editor = Editor()
    async with acp.spawn_agent_process(editor, os.environ["CTX"], "acp", env=os.environ) as (agent, _):
        initialized = await agent.initialize(protocol_version=acp.PROTOCOL_VERSION)
        assert initialized.agent_info.name == "ctx"
        if action == "list":
            listed = await agent.list_sessions(cwd=directory)
            return {"sessions": [session.session_id for session in listed.sessions]}
        if action == "load":
            await agent.load_session(cwd=directory, session_id=argument, mcp_servers=[])
            await editor.wait_for("two")
            return {"text": editor.text, "users": editor.users}
        if action == "fork":
            opened = await agent.fork_session(cwd=directory, session_id=argument)
        else:
            opened = await agent.new_session(cwd=directory, mcp_servers=[])
        session = opened.session_id
        if action == "new":
            return {"session": session}
        text = {"fork": "m2: say forked"}.get(action, argument)
        prompt = asyncio.create_task(agent.prompt(session_id=session, prompt=[acp.text_block(text)]))
        if action == "cancel":
            await editor.wait_for("begun")
            await agent.cancel(session_id=session)
        if action == "stream":
            await editor.wait_for("two")
            print(json.dumps({"session": session}), flush=True)
        answer = await prompt
        return {"session": session, "stop": answer.stop_reason, "text": editor.text, "asked": editor.asked}


if __name__ == "__main__":
    arguments = sys.argv[1:] + [None]
    print(json.dumps(asyncio.run(main(*arguments[:3]))), flush=True)
