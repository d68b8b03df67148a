"""Checks every message that ctx sent to a client against the schema of the protocol: schema_check.py SCHEMA LOG…"""

import json
import pathlib
import sys

import jsonschema


def definitions(schema):
    """(method, is it a response?) → name of the definition."""
    found = {}
    for name, definition in schema["$defs"].items():
        method = definition.get("x-method")
        if method:
            found[method, name.endswith("Response")] = name
    return found


def check(schema, names, path):
    """Yields the messages of one connection that do not match, and why."""
    methods = {}
    for line in pathlib.Path(path).read_text(encoding="utf-8").splitlines():
        direction, message = line[0], line[2:]
        try:
            message = json.loads(message)
        except json.JSONDecodeError:
            continue
        if direction == "<":
            if "method" in message and "id" in message:
                methods[json.dumps(message["id"])] = message["method"]
            continue
        if "method" in message:
            key, value = (message["method"], False), message["params"]
        elif "result" in message:
            key, value = (methods.get(json.dumps(message["id"])), True), message["result"]
        else:
            continue
        name = names.get(key)
        if name is None:
            yield f"{key[0]} is not in the schema: {line[:300]}"
            continue
        validator = jsonschema.Draft202012Validator({"$ref": f"#/$defs/{name}", "$defs": schema["$defs"]})
        for error in validator.iter_errors(value):
            yield f"{name}: {error.message[:300]} in {line[:300]}"


def main(schema_file, logs):
    schema = json.loads(pathlib.Path(schema_file).read_text(encoding="utf-8"))
    names = definitions(schema)
    wrong = [fault for path in logs for fault in check(schema, names, path)]
    print("\n".join(wrong[:20]))
    count = sum(line.startswith(">") for path in logs for line in open(path, encoding="utf-8"))
    print(f"{count} messages, {len(wrong)} do not match the schema")
    return 1 if wrong or not count else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
