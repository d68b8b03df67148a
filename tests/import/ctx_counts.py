"""Imports sessions with ctx into a store and counts what the store contains, by the verbs of the program."""

import base64
import collections
import hashlib
import json
import os
import re
import subprocess

from found_session import canonical

# The data of a picture inside the text of a tool result.
PICTURE = re.compile(r'"data":"(iVBORw0KGgo[A-Za-z0-9+/=]+)"')


class Store:
    def __init__(self, program, directory):
        self.program, self.directory = program, str(directory)
        # No configuration, provider or session of this machine takes part.
        self.environment = {"PATH": os.environ["PATH"], "HOME": self.directory}

    def run(self, *arguments):
        command = [self.program, "--data", self.directory, "--json", *arguments]
        done = subprocess.run(command, env=self.environment, capture_output=True, cwd=self.directory)
        if done.returncode != 0:
            raise SystemExit(f"{' '.join(arguments)} failed: {done.stderr.decode()}")
        return json.loads(done.stdout)

    def import_from(self, tool, path):
        return self.run("import", "--from", tool, str(path))["imported"]

    def sessions(self):
        """All sessions by label. Sessions of branches and of workers are in the list."""
        return {session["label"]: session for session in self.run("session", "list")["sessions"]}

    def blob(self, part):
        """The content of a tool result or a record; a large one is stored as an object of its own."""
        if part["blob"] is None:
            return part["content"]
        return self.content_of(part["blob"]).decode()

    def content_of(self, blob):
        """The bytes of a stored object."""
        content = self.run("show", blob)["content"]
        return content.encode() if isinstance(content, str) else bytes.fromhex(content["hex"])

    def count(self, tool):
        """What is stored, by the id that the tool gave the session."""
        kept = {}
        for label in self.sessions():
            name = label.removeprefix(f"{tool}:").split("~")[0]
            kept.setdefault(name, Kept()).add(self, label)
        return kept


class Kept:
    """The content of one session and its branches."""

    def __init__(self):
        self.turns, self.parents, self.messages = set(), {}, {}
        self.lists = collections.defaultdict(list)
        self.usage = collections.Counter(input=0, output=0, cached=0)
        self.sessions = 0

    def add(self, store, label):
        self.sessions += 1
        # Branches share turns: each turn and message is counted once.
        for turn in store.run("session", "tree", label)["turns"]:
            if turn["id"] not in self.parents:
                self.parents[turn["id"]] = turn["parent"]
                usage = store.run("show", turn["id"])["content"].get("usage") or {}
                for name in self.usage:
                    self.usage[name] += usage.get(f"{name}_tokens") or 0
        for message in store.run("session", "show", label, "--full")["messages"]:
            if message["id"] not in self.messages:
                self.messages[message["id"]] = message
                for part in message["content"]:
                    self.part(store, message["role"], part)

    def part(self, store, role, part):
        kind = part["type"]
        if kind == "text" and role in ("user", "assistant"):
            self.lists["prompts" if role == "user" else "answers"].append(part["text"])
        elif kind == "tool_call":
            self.lists["tool calls"].append(f"{part['name']} {canonical(part['params'])}")
        elif kind == "tool_result":
            text = store.blob(part)
            # Rule: a picture in a tool result stays in the text of the result, as the tool wrote it.
            pictures = [base64.b64decode(data) for data in PICTURE.findall(text)]
            self.lists["images"] += [hashlib.sha256(data).hexdigest() for data in pictures]
            self.lists["tool results"].append(f"{part['tool_call_id']} {normal(text)}")
        elif kind == "thought":
            self.lists["reasoning"].append(part["text"])
        elif kind == "image":
            self.lists["images"].append(hashlib.sha256(store.content_of(part["blob"])).hexdigest())
        elif kind == "summary":
            self.lists["compactions"].append(part["text"])

    def counts(self):
        leaves = set(self.parents) - set(self.parents.values())
        names = ("prompts", "answers", "tool calls", "tool results", "reasoning", "images", "compactions")
        counts = {name: len(self.lists[name]) for name in names}
        return {"turns": len(self.parents), "branches": max(0, len(leaves) - 1),
                "messages": counts["prompts"] + counts["answers"], **counts,
                **{f"{name} tokens": value for name, value in self.usage.items()}}

    def contents(self):
        names = ("prompts", "answers", "tool calls", "tool results", "images")
        return {name: self.lists[name] for name in names}


def normal(text):
    """The order of keys is not part of the content of a result that is JSON."""
    if text.startswith("["):
        try:
            return canonical(json.loads(text))
        except ValueError:
            pass
    return text
