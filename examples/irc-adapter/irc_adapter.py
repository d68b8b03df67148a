#!/usr/bin/env python3
"""Connects IRC to ctx: private messages to the bot, and messages in its rooms that mention it."""

import argparse
import os
import pathlib
import queue
import re
import socket
import ssl
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from ctx_channel import Channel, text_of

LINE_MAX_BYTES = 400  # of 512, which include the sender, the command and the target
LINES_MAX = 20  # of one delivery; servers disconnect a client that sends much at once
BURST, PAUSE_S = 5, 0.3
ECHO_S = 5  # until the server has processed a delivery; with the pauses less than the timeout of ctx
SILENCE_S = 90  # after which the server is pinged; after the same time again the connection is lost
RECONNECT_MAX_S = 60


class Irc:
    def __init__(self, options):
        self.options, self.socket, self.nick = options, None, options.nick
        self.replies, self.lock = queue.Queue(), threading.Lock()

    def run(self, send):
        """Handles messages from the server. Connects again, with growing pauses, whenever the connection ends."""
        pause_s = 1
        while True:
            try:
                for prefix, command, arguments in self.connect():
                    if command == "001":
                        self.nick, pause_s = arguments[0], 1
                        for room in self.options.join:
                            self.write("JOIN " + room)
                    elif command == "433":  # the nick is in use
                        self.nick += "_"
                        self.write("NICK " + self.nick)
                    elif command == "PING":
                        self.write("PONG :" + arguments[-1])
                    elif command in ("PONG", "401", "403", "404"):
                        self.replies.put((command, arguments[-1]))
                    elif command == "PRIVMSG" and (message := self.message(prefix, *arguments)):
                        send(channel=self.options.channel, **message)
            except OSError as error:
                print(f"irc: {error}", file=sys.stderr, flush=True)
            self.socket = None
            time.sleep(pause_s)
            pause_s = min(2 * pause_s, RECONNECT_MAX_S)

    def connect(self):
        host, _, port = self.options.server.rpartition(":")
        connection = socket.create_connection((host, int(port)), timeout=30)
        if self.options.tls:
            connection = ssl.create_default_context().wrap_socket(connection, server_hostname=host)
        connection.settimeout(SILENCE_S)
        self.socket, self.nick, rest, pinged = connection, self.options.nick, b"", False
        if password := os.environ.get("IRC_PASSWORD"):
            self.write("PASS " + password)
        self.write(f"NICK {self.nick}\r\nUSER {self.nick} 0 * :ctx")
        while True:
            try:
                data, pinged = connection.recv(4096), False
            except TimeoutError:
                if pinged:
                    raise
                pinged = True
                self.write("PING :ctx")
                continue
            if not data:
                raise OSError("the server closed the connection")
            *lines, rest = (rest + data).split(b"\n")
            yield from (parse(line.decode(errors="replace").rstrip("\r")) for line in lines if line.strip())

    def write(self, line):
        if not (connection := self.socket):
            raise OSError("not connected")
        with self.lock:
            connection.sendall(line.encode() + b"\r\n")

    def message(self, prefix, target, text, *_):
        """The fields of a message for ctx, or None. Nicks and rooms do not distinguish upper and lower case."""
        nick = prefix.split("!")[0]
        sender = {"sender_id": nick.lower(), "sender_name": nick}
        if text.startswith("\x01") or nick.lower() == self.nick.lower():
            return None
        if target.lower() == self.nick.lower():
            return {**sender, "text": text}
        mine = rf"(?<![\w-]){re.escape(self.nick)}(?![\w-])"
        if not re.search(mine, text, re.IGNORECASE):
            return None
        text = re.sub(rf"^{mine}[:,]\s*", "", text, flags=re.IGNORECASE)
        return {**sender, "peer_kind": "group", "peer_id": target.lower(), "text": text}

    def show(self, delivery):
        """Sends a delivery and waits until the server has processed it, which the answer to a PING shows."""
        while not self.replies.empty():
            self.replies.get()
        for number, line in enumerate(split(text_of(delivery))):
            time.sleep(PAUSE_S if number >= BURST else 0)
            self.write(f"PRIVMSG {delivery['to']['peer_id']} :{line}")
        self.write("PING :" + delivery["id"])
        deadline = time.monotonic() + ECHO_S
        while True:
            try:
                command, text = self.replies.get(timeout=max(0, deadline - time.monotonic()))
            except queue.Empty:
                raise OSError("the server did not confirm the message") from None
            if command != "PONG":
                raise OSError(f"the server refused the message: {command} {text}")
            if text == delivery["id"]:
                return


def parse(line):
    """Prefix, command and arguments of a line from the server."""
    prefix = ""
    if line.startswith(":"):
        prefix, _, line = line[1:].partition(" ")
    middle, colon, last = line.partition(" :")
    command, *arguments = middle.split() or [""]
    return prefix, command, arguments + [last] * bool(colon)


def split(text):
    """The lines to send: at most LINE_MAX_BYTES each, divided at spaces if possible, and never inside a character."""
    lines = []
    for line in re.split(r"[\r\n\0]+", text):
        data = line.encode()
        while len(data) > LINE_MAX_BYTES:
            part = data[:LINE_MAX_BYTES].decode(errors="ignore")
            if " " in part.strip():
                part = part[: part.rindex(" ")]
            lines.append(part)
            data = data[len(part.encode()) :].lstrip(b" ")
        lines.append(data.decode())
    lines = [line for line in lines if line.strip()]
    return lines if len(lines) <= LINES_MAX else [*lines[: LINES_MAX - 1], "[shortened]"]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--server", default="127.0.0.1:6667", help="address of the IRC server")
    parser.add_argument("--tls", action="store_true", help="encrypt the connection to the IRC server")
    parser.add_argument("--nick", default="ctx", help="nick of the bot")
    parser.add_argument("--join", action="append", default=[], metavar="ROOM", help="room to join; can be repeated")
    parser.add_argument("--channel", default="irc", help="name of the channel in ctx.toml")
    parser.add_argument("--ctx", default="http://127.0.0.1:7420", help="address of ctx serve")
    parser.add_argument("--listen", default="127.0.0.1:7432", help="address for deliveries, as in ctx.toml")
    parser.add_argument("--secret-env", default="CTX_IRC_SECRET", help="variable with the secret of the channel")
    parser.add_argument("--journal", default="irc.journal", help="file with what was accepted and shown")
    options = parser.parse_args()
    if not (secret := os.environ.get(options.secret_env)):
        parser.error(f"the environment variable {options.secret_env} is not set")
    irc = Irc(options)
    irc.run(Channel(options.ctx, options.listen, secret, options.journal, irc.show).send)
