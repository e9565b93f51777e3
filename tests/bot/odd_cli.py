#!/usr/bin/env python3
"""A program in the place of the CLI that does what the real one does rarely or never. The system prompt says what."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

Line = dict[str, Any]


def say(**line: Any) -> None:
    print(json.dumps(line), flush=True)


def result(text: str, **more: Any) -> None:
    say(type="result", subtype="success", is_error=False, result=text, **more)


def foreign_results(line: Line) -> None:
    result("of another message", user_message_uuids=["11111111-1111-4111-8111-111111111111"])
    result("of nobody")
    say(type="result", subtype="success", is_error=True, result="of another", user_message_uuid="2")
    result("mine", user_message_uuid=line["uuid"])


def broken_json(line: Line) -> None:
    print("a line of text is passed over", flush=True)
    print('{"type": "assistant", ', flush=True)
    time.sleep(60)


def too_long_a_line(line: Line) -> None:
    print(json.dumps({"type": "assistant", "text": "x" * 300_000}), flush=True)
    time.sleep(60)


def odd_lines(line: Line) -> None:
    for odd in ({"type": "control_response"}, {"type": "control_response", "response": 7}, {"type": None}, {"type": "user", "message": 3}):
        say(**odd)
    result("after all", user_message_uuids=[line["uuid"]])


def compacts(line: Line) -> None:
    say(type="system", subtype="compact_boundary", compactMetadata={"trigger": "auto"})
    result("done", user_message_uuids=[line["uuid"]])


def asks_for_a_tool(line: Line) -> None:
    say(type="control_request", request_id="t1", request={"subtype": "can_use_tool", "tool_name": "Bash"})
    told = json.loads(sys.stdin.readline())
    result(told["response"]["response"]["behavior"] + " " + told["response"]["request_id"], user_message_uuids=[line["uuid"]])


def deaf(line: Line) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    say(type="system", subtype="status", status="requesting")
    while True:
        time.sleep(60)


def leaves_a_child(line: Line) -> None:
    child = subprocess.Popen(["sleep", "60"])
    result(str(child.pid), user_message_uuids=[line["uuid"]])


def control(line: Line, behaviour: str) -> None:
    if behaviour == "mute":
        time.sleep(60)
    answer = "error" if behaviour == "refuses" else "success"
    say(type="control_response", response={"subtype": answer, "request_id": line["request_id"], "error": "no"})
    if behaviour == "does_not_read":
        time.sleep(60)


def main() -> None:
    behaviour = Path(sys.argv[sys.argv.index("--system-prompt-file") + 1]).read_text()
    if behaviour == "dies":
        print("Error: no such thing\nand more", file=sys.stderr)
        sys.exit(3)
    while raw := sys.stdin.readline():
        line = json.loads(raw)
        if line["type"] == "control_request":
            control(line, behaviour)
        else:
            globals()[behaviour](line)


if __name__ == "__main__":
    main()
