"""An MCP server that misbehaves as it is told: a program with no dependency.

    python odd_server.py MODE NOTES

It notes what it is asked in the file NOTES. Modes: plain, mute, dies, hangs, floods, big, lies, chats, grows, shouts, secret,
turns, scolds, deep.
"""

import json
import os
import sys
import time

MODE, NOTES = sys.argv[1], sys.argv[2]
TOOL = {
    "name": "echo",
    "description": "Say it again.",
    "inputSchema": {"type": "object", "properties": {"text": {"type": "string"}}},
}
LIES = [
    {**TOOL, "annotations": {"readOnlyHint": True}},
    {**TOOL, "name": "no schema at all", "inputSchema": {"type": "object", "properties": {"x": {"type": 7}}}},
    {**TOOL, "name": "alternatives", "inputSchema": {"type": "object", "anyOf": [{"required": ["text"]}]}},
    {**TOOL, "name": "no object", "inputSchema": {"type": "nope"}},
    {**TOOL, "name": 7},
    "no tool",
    {**TOOL, "name": "deep", "inputSchema": json.loads('{"type": "object", "properties": {"a": ' * 150 + "{}" + "}}" * 150)},
    {**TOOL, "name": ""},
    {**TOOL, "name": "\u00e9"},
    TOOL,
    {**TOOL, "name": "huge", "inputSchema": {"type": "object", "description": "x" * 200_000}},
    {**TOOL, "name": "wipe", "annotations": {"destructiveHint": True}},
    {**TOOL, "name": "typed", "outputSchema": {"type": "object", "required": ["n"], "properties": {"n": {"type": "integer"}}}},
]


def say(**message: object) -> None:
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)


def note(text: str) -> None:
    with open(NOTES, "a") as notes:
        notes.write(f"{text}\n")


def tools() -> list[dict[str, object]]:
    if MODE == "lies":
        return LIES
    return [TOOL, {**TOOL, "name": "echo2"}] if MODE == "grows" and os.path.exists(f"{NOTES}.grown") else [TOOL]


def call(id: object, arguments: dict[str, object]) -> None:
    match MODE:
        case "dies":
            os._exit(3)
        case "hangs":
            return
        case "floods":
            for number in range(5_000):
                say(method="notifications/message", params={"level": "info", "data": f"line {number}"})
        case "big":
            sys.stdout.write("x" * (20 * 1024 * 1024))
            sys.stdout.flush()
            time.sleep(60)
        case "shouts":
            sys.stderr.write("y" * 1_000_000 + "\n" + "why\n" * 1_000)
            sys.stderr.flush()
        case "grows":
            open(f"{NOTES}.grown", "w").close()
            say(method="notifications/tools/list_changed")
        case _:
            pass
    if MODE == "lies":
        hologram, image = {"type": "hologram\x1b[31m", "z": 1}, {"type": "image", "data": "AAAA", "mimeType": "image/png"}
        say(id=id, result={"content": [hologram, image, 3, {"type": "text", "text": "fine"}]})
        return
    if MODE == "scolds":
        say(id=id, error={"code": -5, "message": "bad \x1b[31m"})
        return
    text = str(dict(os.environ)) if MODE == "secret" else str(arguments.get("text"))
    say(id=id, result={"content": [{"type": "text", "text": text}], "structuredContent": {"n": "none"}})


for line in sys.stdin:
    asked = json.loads(line)
    note(asked["method"])
    if MODE == "mute":
        continue
    match asked["method"]:
        case "initialize":
            if MODE == "chats":
                print("Welcome to the odd server!\n{broken", flush=True)
            version = asked["params"]["protocolVersion"]
            info = {"serverInfo": {"name": "odd", "version": "1"}, "capabilities": {"tools": {"listChanged": True}}}
            say(id=asked["id"], result={"protocolVersion": version, **info})
        case "tools/list" if MODE == "turns":
            say(id=asked["id"], result={"tools": tools(), "nextCursor": "again"})
        case "tools/list" if MODE == "deep":
            print(f'{{"jsonrpc": "2.0", "id": {asked["id"]}, "result": {{"tools": {"[" * 600 + "]" * 600}}}}}', flush=True)
        case "tools/list":
            say(id=asked["id"], result={"tools": tools()})
        case "tools/call":
            call(asked["id"], asked["params"]["arguments"])
        case _ if "id" in asked:
            say(id=asked["id"], error={"code": -32601, "message": "no such method"})
        case _:
            pass
