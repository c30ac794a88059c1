"""A program that speaks as a coding agent does: run as a process, under the name of the one it stands in for.

It takes the arguments that the real one takes, and no others; keeps its conversations as the real one does; and does what the
prompt says, a line at a time:

    write PATH TEXT     makes a file
    say TEXT            is its message
    noise               writes what is no part of the format, and what is no text
    huge                writes a line of two megabytes
    recall              says how many prompts of this conversation came before
    env NAME            says the value of a variable
    daemon              leaves a process in a session of its own, says its id, and goes on
    hang                does not end
    fail                reports an error in the format's way
    die CODE            ends in the middle
"""

import argparse
import json
import os
import subprocess
import sys
import time
import uuid
from pathlib import Path

STATE = Path(os.environ.get("STAND_IN_STATE", "."))


class Mind:
    """Obeys a prompt."""

    def __init__(self, emit):
        self.emit = emit
        self.message = ""

    def obey(self, prompt, past):
        """Do what the prompt says; return whether all went well."""
        for order in prompt.splitlines():
            verb, _, rest = order.partition(" ")
            match verb:
                case "write":
                    path, _, text = rest.partition(" ")
                    Path(path).write_text(text)
                case "say":
                    self.say(rest)
                case "noise":
                    raw(b"not of the format\n\xff\xfe{\n[]\n\x1b[31mred\n\n")
                    print("a word on standard error", file=sys.stderr, flush=True)
                case "huge":
                    raw(b"x" * 2_000_000 + b"\n")
                case "recall":
                    self.say(f"{past} before")
                case "env":
                    self.say(f"{rest}={os.environ.get(rest)}")
                case "daemon":
                    self.say(str(subprocess.Popen(["sleep", "300"], start_new_session=True, stdout=subprocess.DEVNULL).pid))
                case "hang":
                    time.sleep(300)
                case "fail":
                    return False
                case "die":
                    print("something broke", file=sys.stderr, flush=True)
                    os._exit(int(rest))
        return True

    def say(self, text):
        self.message = text
        self.emit(text)


def raw(text):
    sys.stdout.buffer.write(text)
    sys.stdout.buffer.flush()


def event(**fields):
    raw(json.dumps(fields).encode() + b"\n")


def remembered(place, prompt):
    """Add a prompt to a conversation; return how many came before."""
    place.parent.mkdir(parents=True, exist_ok=True)
    past = json.loads(place.read_text()) if place.exists() else []
    place.write_text(json.dumps([*past, prompt]))
    return len(past)


def claude():
    parser = argparse.ArgumentParser()
    parser.add_argument("-p", action="store_true", required=True)
    parser.add_argument("--output-format", choices=["stream-json"], required=True)
    parser.add_argument("--verbose", action="store_true", required=True)
    parser.add_argument("--include-partial-messages", action="store_true")
    parser.add_argument("--permission-mode", choices=["acceptEdits", "bypassPermissions"], required=True)
    parser.add_argument("--resume")
    asked = parser.parse_args()
    session = asked.resume or str(uuid.uuid4())
    place = STATE / "projects" / os.getcwd().replace("/", "-") / f"{session}.json"
    if asked.resume and not place.exists():
        why = f"No conversation found with session ID: {session}"
        event(type="result", subtype="error_during_execution", is_error=True, num_turns=0, session_id=session, errors=[why])
        sys.exit(why)
    prompt = sys.stdin.read()
    event(type="system", subtype="init", session_id=session, cwd=os.getcwd())
    mind = Mind(
        lambda text: event(type="assistant", session_id=session, message={"content": [{"type": "text", "text": text}]})
    )
    tool = {"type": "tool_use", "name": "Edit", "input": {"file_path": "a"}}
    event(type="assistant", session_id=session, message={"content": [tool]})
    well = mind.obey(prompt, remembered(place, prompt))
    usage = {"input_tokens": 10, "cache_creation_input_tokens": 3, "cache_read_input_tokens": 4, "output_tokens": 5}
    if well:
        event(type="result", subtype="success", is_error=False, result=mind.message, session_id=session, usage=usage)
    else:
        event(
            type="result", subtype="success", is_error=True, result="no permission to go on", session_id=session, usage=usage
        )
        sys.exit(1)


def codex():
    parser = argparse.ArgumentParser()
    parser.add_argument("exec", choices=["exec"])
    parser.add_argument("--json", action="store_true", required=True)
    parser.add_argument("--skip-git-repo-check", action="store_true", required=True)
    parser.add_argument("-c", action="append", required=True)
    parser.add_argument("rest", nargs="+")
    asked = parser.parse_args()
    assert asked.rest[-1] == "-"
    assert asked.c == ['sandbox_mode="workspace-write"']
    thread = asked.rest[1] if asked.rest[0] == "resume" else str(uuid.uuid4())
    place = STATE / "threads" / f"{thread}.json"
    if asked.rest[0] == "resume" and not place.exists():
        sys.exit(f"Error: thread/resume failed: no rollout found for thread id {thread}")
    prompt = sys.stdin.read()
    event(type="thread.started", thread_id=thread)
    event(type="turn.started")
    event(type="error", message="Reconnecting... 1/5")
    mind = Mind(lambda text: event(type="item.completed", item={"id": "item_1", "type": "agent_message", "text": text}))
    event(type="item.completed", item={"id": "item_0", "type": "command_execution", "command": "ls", "exit_code": 0})
    if mind.obey(prompt, remembered(place, prompt)):
        event(type="turn.completed", usage={"input_tokens": 20, "cached_input_tokens": 8, "output_tokens": 6})
    else:
        event(type="turn.failed", error={"message": "the sandbox denied it"})
        sys.exit(1)


def aider():
    flags = ["yes-always", "no-auto-commits", "no-dirty-commits", "no-gitignore", "no-check-update", "no-pretty", "no-stream"]
    flags += ["no-show-release-notes", "no-detect-urls", "no-suggest-shell-commands", "restore-chat-history", "no-analytics"]
    parser = argparse.ArgumentParser(allow_abbrev=False)
    for flag in flags:
        parser.add_argument(f"--{flag}", action="store_true")
    for option in ("chat-history-file", "input-history-file", "message-file", "analytics-log"):
        parser.add_argument(f"--{option}", required=True)
    asked = parser.parse_args()
    history = Path(asked.chat_history_file)
    prompt = Path(asked.message_file).read_text()
    Path(".aider.tags.cache.v4").mkdir()
    past = remembered(history, prompt)
    if Mind(lambda text: print(text, flush=True)).obey(prompt, past if asked.restore_chat_history else 0):
        print("Tokens: 2.3k sent, 1.1k cache hit, 123 received. Cost: $0.01 message, $0.01 session.")
    else:
        sys.exit("litellm.AuthenticationError")


if __name__ == "__main__":
    {"claude": claude, "codex": codex, "aider": aider}[Path(sys.argv[0]).name]()
