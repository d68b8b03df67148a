"""The four wire formats of model APIs: parsing of requests, and streaming of answers.

Each format is a class with `conversation` (the messages of a request), `tools` (the names of its tools), `whole` (an
answer as one document) and `stream` (an answer as server-sent events). An answer is a `Say` or a `Call`.
"""

import dataclasses
import json
import time


@dataclasses.dataclass
class Say:
    """A text, sent word by word with `delay` seconds between two words."""

    text: str
    delay: float = 0.0

    def words(self):
        pieces = self.text.split(" ")
        return [piece if n == 0 else " " + piece for n, piece in enumerate(pieces)]


@dataclasses.dataclass
class Call:
    """One tool call."""

    name: str
    arguments: dict
    # Responses API only: tools of an MCP server have a namespace.
    namespace: str | None = None


USAGE_IN, USAGE_OUT = 11, 8


class Chat:
    """OpenAI chat completions."""

    @staticmethod
    def conversation(body):
        return body.get("messages", [])

    @staticmethod
    def tools(body):
        return [tool.get("function", {}).get("name") for tool in body.get("tools") or []]

    @staticmethod
    def whole(body, answer, number):
        message = {"role": "assistant", "content": None}
        if isinstance(answer, Say):
            message["content"] = answer.text
        else:
            function = {"name": answer.name, "arguments": json.dumps(answer.arguments)}
            message["tool_calls"] = [{"id": f"call_{number}", "type": "function", "function": function}]
        reason = "stop" if isinstance(answer, Say) else "tool_calls"
        choice = {"index": 0, "message": message, "finish_reason": reason}
        return {"id": f"chat_{number}", "object": "chat.completion", "model": body.get("model"), "choices": [choice], "usage": Chat.usage()}

    @staticmethod
    def usage():
        return {"prompt_tokens": USAGE_IN, "completion_tokens": USAGE_OUT, "total_tokens": USAGE_IN + USAGE_OUT}

    @staticmethod
    def stream(body, answer, number, emit):
        base = {"id": f"chat_{number}", "object": "chat.completion.chunk", "created": int(time.time()), "model": body.get("model")}

        def chunk(delta, reason=None):
            emit({**base, "choices": [{"index": 0, "delta": delta, "finish_reason": reason}]})

        chunk({"role": "assistant", "content": ""})
        if isinstance(answer, Say):
            for word in answer.words():
                chunk({"content": word})
                time.sleep(answer.delay)
            chunk({}, "stop")
        else:
            text = json.dumps(answer.arguments)
            head = {"index": 0, "id": f"call_{number}", "type": "function", "function": {"name": answer.name, "arguments": ""}}
            chunk({"tool_calls": [head]})
            # In two fragments, as real servers send them.
            for piece in (text[: len(text) // 2], text[len(text) // 2 :]):
                chunk({"tool_calls": [{"index": 0, "function": {"arguments": piece}}]})
            chunk({}, "tool_calls")
        if (body.get("stream_options") or {}).get("include_usage"):
            emit({**base, "choices": [], "usage": Chat.usage()})
        emit("[DONE]")


class Responses:
    """OpenAI Responses."""

    @staticmethod
    def conversation(body):
        given = body.get("input", [])
        return [given] if isinstance(given, str) else given

    @staticmethod
    def tools(body):
        return [tool.get("name") or tool.get("type") for tool in body.get("tools") or []]

    @staticmethod
    def item(answer, number):
        if isinstance(answer, Say):
            content = [{"type": "output_text", "text": answer.text, "annotations": []}]
            return {"id": f"msg_{number}", "type": "message", "status": "completed", "role": "assistant", "content": content}
        text = json.dumps(answer.arguments)
        item = {"id": f"fc_{number}", "type": "function_call", "status": "completed", "call_id": f"call_{number}"}
        item |= {"name": answer.name, "arguments": text}
        return {**item, "namespace": answer.namespace} if answer.namespace else item

    @staticmethod
    def response(body, number, **more):
        usage = {
            "input_tokens": USAGE_IN,
            "input_tokens_details": {"cached_tokens": 0},
            "output_tokens": USAGE_OUT,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": USAGE_IN + USAGE_OUT,
        }
        done = more.get("status") == "completed"
        base = {"id": f"resp_{number}", "object": "response", "created_at": int(time.time()), "model": body.get("model"), "tools": []}
        return {**base, "parallel_tool_calls": True, "tool_choice": "auto", "output": [], "usage": usage if done else None, **more}

    @staticmethod
    def whole(body, answer, number):
        return Responses.response(body, number, status="completed", output=[Responses.item(answer, number)])

    @staticmethod
    def stream(body, answer, number, emit):
        sequence = iter(range(1_000_000))

        def event(kind, **more):
            emit({"type": kind, "sequence_number": next(sequence), **more}, kind)

        item = Responses.item(answer, number)
        at = {"item_id": item["id"], "output_index": 0}
        begun = Responses.response(body, number, status="in_progress")
        event("response.created", response=begun)
        event("response.in_progress", response=begun)
        if isinstance(answer, Say):
            part = item["content"][0]
            event("response.output_item.added", output_index=0, item={**item, "status": "in_progress", "content": []})
            event("response.content_part.added", **at, content_index=0, part={**part, "text": ""})
            for word in answer.words():
                event("response.output_text.delta", **at, content_index=0, delta=word)
                time.sleep(answer.delay)
            event("response.output_text.done", **at, content_index=0, text=answer.text)
            event("response.content_part.done", **at, content_index=0, part=part)
        else:
            event("response.output_item.added", output_index=0, item={**item, "status": "in_progress", "arguments": ""})
            event("response.function_call_arguments.delta", **at, delta=item["arguments"])
            event("response.function_call_arguments.done", **at, arguments=item["arguments"])
        event("response.output_item.done", output_index=0, item=item)
        event("response.completed", response=Responses.response(body, number, status="completed", output=[item]))


class Anthropic:
    """Anthropic Messages."""

    @staticmethod
    def conversation(body):
        return body.get("messages", [])

    @staticmethod
    def tools(body):
        return [tool.get("name") for tool in body.get("tools") or []]

    @staticmethod
    def block(answer, number):
        if isinstance(answer, Say):
            return {"type": "text", "text": answer.text}
        return {"type": "tool_use", "id": f"toolu_{number}", "name": answer.name, "input": answer.arguments}

    @staticmethod
    def message(body, number, **more):
        base = {"id": f"msg_{number}", "type": "message", "role": "assistant", "model": body.get("model"), "content": []}
        return {**base, "stop_reason": None, "stop_sequence": None, "usage": {"input_tokens": USAGE_IN, "output_tokens": 1}, **more}

    @staticmethod
    def reason(answer):
        return "end_turn" if isinstance(answer, Say) else "tool_use"

    @staticmethod
    def whole(body, answer, number):
        usage = {"input_tokens": USAGE_IN, "output_tokens": USAGE_OUT}
        return Anthropic.message(body, number, content=[Anthropic.block(answer, number)], stop_reason=Anthropic.reason(answer), usage=usage)

    @staticmethod
    def stream(body, answer, number, emit):
        def event(kind, **more):
            emit({"type": kind, **more}, kind)

        event("message_start", message=Anthropic.message(body, number))
        block = Anthropic.block(answer, number)
        empty = {**block, "text": ""} if isinstance(answer, Say) else {**block, "input": {}}
        event("content_block_start", index=0, content_block=empty)
        event("ping")
        if isinstance(answer, Say):
            for word in answer.words():
                event("content_block_delta", index=0, delta={"type": "text_delta", "text": word})
                time.sleep(answer.delay)
        else:
            event("content_block_delta", index=0, delta={"type": "input_json_delta", "partial_json": json.dumps(answer.arguments)})
        event("content_block_stop", index=0)
        delta = {"stop_reason": Anthropic.reason(answer), "stop_sequence": None}
        event("message_delta", delta=delta, usage={"output_tokens": USAGE_OUT})
        event("message_stop")


class Gemini:
    """Gemini generateContent."""

    @staticmethod
    def conversation(body):
        return body.get("contents", [])

    @staticmethod
    def tools(body):
        return [each.get("name") for tool in body.get("tools") or [] for each in tool.get("functionDeclarations", [])]

    @staticmethod
    def candidate(parts, reason=None):
        found = {"content": {"parts": parts, "role": "model"}, "index": 0}
        if reason:
            found["finishReason"] = reason
        usage = {"promptTokenCount": USAGE_IN, "candidatesTokenCount": USAGE_OUT, "totalTokenCount": USAGE_IN + USAGE_OUT}
        return {"candidates": [found], "usageMetadata": usage, "modelVersion": "scripted"}

    @staticmethod
    def part(answer):
        if isinstance(answer, Say):
            return {"text": answer.text}
        return {"functionCall": {"name": answer.name, "args": answer.arguments}}

    @staticmethod
    def whole(body, answer, number):
        # gemini-cli asks which model to use and expects JSON.
        if (body.get("generationConfig") or {}).get("responseMimeType") == "application/json":
            return Gemini.candidate([{"text": "{}"}], "STOP")
        return Gemini.candidate([Gemini.part(answer)], "STOP")

    @staticmethod
    def stream(body, answer, number, emit):
        if isinstance(answer, Call):
            emit(Gemini.candidate([Gemini.part(answer)], "STOP"))
            return
        for word in answer.words():
            emit(Gemini.candidate([{"text": word}]))
            time.sleep(answer.delay)
        emit(Gemini.candidate([{"text": ""}], "STOP"))


def of(path):
    """The format of a server path, and whether it always streams; None depends on the request."""
    if path.endswith("/chat/completions"):
        return Chat, None
    if path.endswith("/responses"):
        return Responses, None
    if path.endswith("/messages"):
        return Anthropic, None
    if path.endswith(":streamGenerateContent"):
        return Gemini, True
    if path.endswith(":generateContent"):
        return Gemini, False
    return None, None
