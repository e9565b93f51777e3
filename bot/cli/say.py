"""`insomnia say`: one person's message in the embedded workspace, and the bot's answer to it.

The answer is recognised by its metadata, never by being the next post: `message` names what it answers, `part` and
`parts` say when it is whole.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bot.cli import FAILED, USAGE, CommandError
from bot.cli.control import SlackControl, find_control
from bot.cli.terminal import grey, one_line, safe

LOOK_SECONDS = 10.0  # how long one request waits: between two of them a stopped bot is noticed
WHISPERED = "whispered"
PAUSE_SECONDS = 0.2  # between two looks: a bot that is stopping answers them at once
REPLY_EVENT = "insomnia_reply"
TRACE_DIGITS = 8  # what people are shown of a trace id; enough to look it up


@dataclass(frozen=True, slots=True, kw_only=True)
class Heard:
    """The whole answer. `shown`: as people see it, names for ids. `gate`: {decision, reason, injection, messages, omitted}."""

    text: str
    shown: str
    ts: str
    parts: int
    outcome: str
    trace_id: str
    gate: dict[str, Any] | None


def say(args: argparse.Namespace) -> int:
    if args.no_mention and not args.text.strip():
        raise CommandError("there is nothing to say: TEXT is empty", USAGE)
    control = find_control(args.workspace)
    posted = control.post("say", _message(control, args))
    if args.no_mention:
        return _tell(args, posted, None, outcome=None)
    heard = _hear(control, posted, seconds=args.timeout, workspace=args.workspace)
    _tell(args, posted, heard, outcome=heard.outcome if heard else "timeout")
    if heard is None:
        raise CommandError(
            f"no answer within {args.timeout:g} s (message {posted['ts']} in {posted['channel']}); the bot may still answer it"
        )
    return 0 if heard.outcome in ("answered", WHISPERED) else FAILED


def _message(control: SlackControl, args: argparse.Namespace) -> dict[str, Any]:
    """Who and where, if not said, is the workspace's to choose."""
    channel = args.channel or (_channel_of(control, args.thread) if args.thread else None)
    text = args.text or " "  # a mention alone is said too: in a thread it means "look at this"
    return {"text": text, "channel": channel, "thread_ts": args.thread, "user": args.user, "mention": not args.no_mention}


def _channel_of(control: SlackControl, thread: str) -> str:
    where = [str(row["channel"]) for row in control.get("threads") if row["thread_ts"] == thread]
    if len(where) == 1:
        return where[0]
    if where:
        raise CommandError(f"the thread {thread} is in {len(where)} channels; say which: --channel {' or '.join(where)}", USAGE)
    raise CommandError(f"there is no thread {thread}; `insomnia threads` shows those that there are")


def _hear(control: SlackControl, posted: dict[str, Any], *, seconds: float, workspace: Path) -> Heard | None:
    end = time.monotonic() + seconds
    while (left := end - time.monotonic()) > 0:
        look = min(left, LOOK_SECONDS)
        query = {"channel": posted["channel"], "ts": posted["ts"], "timeout": f"{look:.3f}"}
        told = control.get("wait", query, wait_seconds=look)
        if heard := _whole(told["messages"]) or _whispered(told["ephemerals"]):
            return heard
        find_control(workspace)  # a bot that died answers no more, and says so here
        time.sleep(min(left, PAUSE_SECONDS))
    return None


def _whole(posts: Sequence[dict[str, Any]]) -> Heard | None:
    """The answer once each of its parts is there. Of an answer that was cut anew on the way, the newest cut counts."""
    answers = [post for post in posts if (post.get("metadata") or {}).get("event_type") == REPLY_EVENT]
    if not answers:
        return None
    payload = answers[-1]["metadata"]["event_payload"]
    cut = [post for post in answers if post["metadata"]["event_payload"]["parts"] == payload["parts"]]
    parts = {post["metadata"]["event_payload"]["part"]: post for post in cut}
    if len(parts) < payload["parts"]:
        return None
    in_order = [parts[part] for part in sorted(parts)]
    return Heard(
        text="\n".join(post["text"] for post in in_order),
        shown="\n".join(post.get("shown", post["text"]) for post in in_order),
        ts=in_order[0]["ts"],
        parts=payload["parts"],
        outcome=payload.get("outcome", "answered"),
        trace_id=payload["trace_id"],
        gate=payload.get("gate"),
    )


def _whispered(whispers: Sequence[dict[str, Any]]) -> Heard | None:
    """What only the speaker sees: the answer to `why`."""
    if not whispers:
        return None
    text, ts = whispers[0]["text"], whispers[0]["ts"]
    return Heard(text=text, shown=whispers[0].get("shown", text), ts=ts, parts=1, outcome=WHISPERED, trace_id="", gate=None)


def _tell(args: argparse.Namespace, posted: dict[str, Any], heard: Heard | None, *, outcome: str | None) -> int:
    if args.json:
        print(json.dumps(_as_json(posted, heard, outcome), ensure_ascii=False))
    elif heard:
        print(safe(heard.shown))
        trace = f"trace {one_line(heard.trace_id)[:TRACE_DIGITS]}" if heard.trace_id else "only you see this"
        print(grey(" · ".join(filter(None, (gate_in_words(heard.gate), trace)))))
    elif outcome is None:
        print(f"said in {posted['channel']}, thread {posted['thread_ts']}")
    return 0


def _as_json(posted: dict[str, Any], heard: Heard | None, outcome: str | None) -> dict[str, Any]:
    return {
        "channel": posted["channel"],
        "ts": posted["ts"],
        "thread_ts": posted["thread_ts"],
        "outcome": outcome,
        "reply": {"text": heard.text, "ts": heard.ts, "parts": heard.parts} if heard else None,
        "trace_id": heard.trace_id or None if heard else None,
        "gate": heard.gate if heard else None,
    }


def gate_in_words(gate: dict[str, Any] | None) -> str:
    """`re-read 7 messages (not_known)`: the decision as a person reads it, its reason as it is looked up."""
    if not gate:
        return ""
    messages = f"{gate['messages']} message{'' if gate['messages'] == 1 else 's'}"
    what = {
        "known": f"known, {messages} by others added" if gate["messages"] else "known, nothing re-read",
        "new": "a new thread",
        "refetched": f"re-read {messages}",
        "refetch_failed": "the thread could not be read",
    }.get(gate["decision"], str(gate["decision"]))
    left_out = f", {gate['omitted']} left out" if gate.get("omitted") else ""
    return f"{what} ({gate['reason']}{left_out})"
