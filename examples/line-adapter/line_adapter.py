#!/usr/bin/env python3
"""Connects standard input and output to ctx: each input line is a message, each reply is printed."""

import argparse
import json
import os
import pathlib
import signal
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from ctx_channel import Channel, text_of

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--sender", required=True, help="sender id of the messages")
parser.add_argument("--channel", default="line", help="name of the channel in ctx.toml")
parser.add_argument("--ctx", default="http://127.0.0.1:7420", help="address of ctx serve")
parser.add_argument("--listen", default="127.0.0.1:7431", help="address for deliveries, as in ctx.toml")
parser.add_argument("--secret-env", default="CTX_LINE_SECRET", help="variable with the secret of the channel")
parser.add_argument("--journal", default="line.journal", help="file with what was accepted and shown")
parser.add_argument("--json", action="store_true", help="print each delivery as one line of JSON, with its id")
options = parser.parse_args()


def show(delivery):
    print(json.dumps(delivery) if options.json else text_of(delivery), flush=True)


if not (secret := os.environ.get(options.secret_env)):
    parser.error(f"the environment variable {options.secret_env} is not set")
sys.stdin.reconfigure(errors="replace")
channel = Channel(options.ctx, options.listen, secret, options.journal, show)
try:
    for line in iter(sys.stdin.readline, ""):
        if line.strip():
            channel.send(channel=options.channel, sender_id=options.sender, text=line.rstrip("\r\n"))
    signal.pause()  # replies can follow the last line
except KeyboardInterrupt:
    pass
