"""What the samples of all tools share."""

import base64
import json
import pathlib
import zlib

AT = "2026-01-02T03:04:{:02}.000Z"
MS = 1_767_323_040_000
DIR = "/home/user/project"
RESULT = "".join(f"line {n}: {n * n}\n" for n in range(400))


def png(shade):
    """A picture of one pixel."""
    def chunk(kind, data):
        body = kind + data
        return len(data).to_bytes(4, "big") + body + zlib.crc32(body).to_bytes(4, "big")
    head = (1).to_bytes(4, "big") * 2 + bytes([8, 0, 0, 0, 0])
    data = chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(bytes([0, shade]))) + chunk(b"IEND", b"")
    return base64.b64encode(b"\x89PNG\r\n\x1a\n" + data).decode()


def write(path, records):
    path = pathlib.Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "a", encoding="utf-8") as out:
        out.writelines(json.dumps(record) + "\n" for record in records)


def new_turns():
    """The prompts and answers by which a session grows."""
    return [(f"Grow {n}", f"Grown {n}") for n in (1, 2)]


def last_record(path, field):
    """The last record that has a field."""
    with open(path, encoding="utf-8") as lines:
        return [json.loads(line) for line in lines if field in json.loads(line)][-1]
