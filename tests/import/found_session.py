"""The content of one session, as a reader finds it in the files of a tool."""

import base64
import collections
import hashlib
import json


def canonical(value):
    return json.dumps(value, sort_keys=True, ensure_ascii=False)


def plain(content):
    """The text of a string or of a list of text parts; other content as it is written."""
    if isinstance(content, str):
        return content
    if isinstance(content, list) and all(isinstance(p, dict) and "text" in p for p in content):
        return "\n".join(p["text"] for p in content)
    return canonical(content)


class Found:
    """The content of one session, and the tree of its records."""

    def __init__(self, name):
        self.name = name
        self.prompts, self.answers, self.thoughts = [], [], []
        self.images, self.pictures = [], []
        self.calls, self.results, self.compactions = [], [], []
        self.usage = collections.Counter(input=0, output=0, cached=0)
        self.parents, self.kinds, self.last = {}, {}, None

    def place(self, kind, key=None, parent=...):
        """Adds a record to the tree: a prompt, an answer, a compaction or something else."""
        key = key or f"#{len(self.parents)}"
        self.parents[key] = self.last if parent is ... else parent
        self.kinds[key] = kind
        self.last = key
        return key

    def image(self, data):
        """Adds an image, given in base64 or as a data URL. It is compared by the hash of its bytes."""
        data = data.split(";base64,")[-1]
        self.pictures.append(data)
        self.images.append(hashlib.sha256(base64.b64decode(data)).hexdigest())

    def spend(self, given, cached=0, output=0):
        """Adds the tokens of one request. `given` includes those that were read from a cache."""
        self.usage.update(input=given or 0, cached=cached or 0, output=output or 0)

    def call(self, name, arguments):
        if isinstance(arguments, str):
            try:
                arguments = json.loads(arguments)
            except ValueError:
                pass
        self.calls.append(f"{name} {canonical(arguments)}")

    def turn_tree(self):
        """The turns as {first record: first record of the turn before}. A prompt starts a turn unless no
        answer follows the prompt before it. A compaction is a turn."""
        turns, turn_of = {}, {}
        for key in self.parents:
            answered, at, kind = False, self.parents[key], self.kinds[key]
            while at is not None and self.kinds[at] not in ("prompt", "compaction"):
                answered = answered or self.kinds[at] == "answer"
                at = self.parents[at]
            if kind == "prompt" and at is not None and self.kinds[at] == "prompt" and not answered:
                turn_of[key] = turn_of[at]
            elif kind in ("prompt", "compaction"):
                turns[key] = None if at is None else turn_of[at]
                turn_of[key] = key
        return turns

    def counts(self):
        turns = self.turn_tree()
        leaves = set(turns) - set(turns.values())
        return {
            "turns": len(turns), "messages": len(self.prompts) + len(self.answers),
            "prompts": len(self.prompts), "answers": len(self.answers), "tool calls": len(self.calls),
            "tool results": len(self.results), "reasoning": len(self.thoughts),
            "branches": max(0, len(leaves) - 1), "images": len(self.images),
            "compactions": len(self.compactions), **{f"{k} tokens": v for k, v in self.usage.items()},
        }

    def contents(self):
        return {
            "prompts": self.prompts, "answers": self.answers, "tool calls": self.calls,
            "tool results": self.results, "images": self.images,
        }
