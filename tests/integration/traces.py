"""What an OTLP receiver got, as trees of plain dicts that a test compares whole.

A span becomes its name, the attributes that say what happened (ids replaced by words, measurements left out), an `error` where
it failed, the names of the spans that it links to, and its children in the order in which they began.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tests.integration.story import Answer

MODEL = "claude-opus-5-5"
Span = Mapping[str, Any]
Tree = dict[str, Any]

ROOT = "process slack"
CHOSEN = {
    ROOT: (
        "messaging.system",
        "messaging.message.id",
        "messaging.message.conversation_id",
        "gen_ai.conversation.id",
        "insomnia.route",
        "insomnia.gate.decision",
        "insomnia.gate.reason",
        "insomnia.reply.outcome",
        "insomnia.reply.reason",
        "insomnia.reply.attempt",
        "insomnia.thread.ts",
        "insomnia.thread.channel",
        "insomnia.thread.team",
        "insomnia.session.key",
    ),
    "session.reset": (
        "gen_ai.conversation.id",
        "insomnia.reset.cause",
        "insomnia.reset.how",
        "insomnia.reset.forgotten",
        "insomnia.session.epoch",
    ),
    "session.start": ("gen_ai.conversation.id", "insomnia.session.account", "insomnia.reset.how"),
    "thread.gate": ("insomnia.gate.decision", "insomnia.gate.reason", "insomnia.session.epoch", "insomnia.gate.known_threads"),
    "thread.refetch": ("insomnia.refetch.outcome", "insomnia.refetch.pages", "insomnia.refetch.messages", "insomnia.refetch.truncated"),
    "thread.inject": (
        "insomnia.thread.ts",
        "insomnia.gate.reason",
        "insomnia.inject.injection",
        "insomnia.inject.messages",
        "insomnia.inject.omitted",
    ),
    "invoke_agent": ("gen_ai.operation.name", "gen_ai.agent.name", "gen_ai.conversation.id", "gen_ai.conversation.compacted"),
    "chat": ("gen_ai.operation.name", "gen_ai.request.model", "gen_ai.response.model", "gen_ai.response.finish_reasons"),
    "execute_tool": (
        "gen_ai.operation.name",
        "gen_ai.tool.name",
        "insomnia.tool.late",
        "insomnia.memory.op.status",
        "insomnia.memory.slug",
        "insomnia.memory.disposition",
    ),
    "slack.reply": ("insomnia.reply.method", "insomnia.reply.chunks"),
    "memory.run": (
        "insomnia.memory.worker",
        "insomnia.memory.trigger",
        "insomnia.memory.status",
        "insomnia.memory.reason",
        "insomnia.memory.ops.write",
        "insomnia.memory.ops.edit",
    ),
    "memory.snapshot": ("insomnia.memory.candidates",),
}
# Every span of a trace has the same beginning of its attributes' names; the tree leaves it out.
PREFIXES = ("insomnia.", "messaging.", "gen_ai.")


def span(name: str, *children: Tree, error: str = "", **attributes: object) -> Tree:
    """A tree as a test spells it; dots of attribute names are double underscores."""
    about = {key.replace("__", "."): value for key, value in attributes.items()}
    return {"span": name, **about, **({"error": error} if error else {}), **({"children": list(children)} if children else {})}


def root(*children: Tree, decision: str = "", reason: str = "", outcome: str = "answered", **more: Any) -> Tree:
    """`decision` "": the message waited in its lane to the end. A cancelled one does not tell its session."""
    about: dict[str, Any] = {"system": "slack", "message__id": "the message", "message__conversation_id": "the thread"}
    about |= {"thread__team": "the team", "route": "main", "session__key": "main", "reply__outcome": outcome}
    if decision:
        about |= {"gate__decision": decision, "gate__reason": reason, "thread__ts": "the thread", "thread__channel": "the channel"}
    if outcome != "cancelled":
        about["conversation__id"] = "the session"
    return span(ROOT, span("lane.wait"), *children, **about, **more)


def gate(decision: str, reason: str, *children: Tree, epoch: int, known: int) -> Tree:
    return span("thread.gate", *children, gate__decision=decision, gate__reason=reason, session__epoch=epoch, gate__known_threads=known)


def refetch(messages: int) -> Tree:
    return span("thread.refetch", refetch__outcome="complete", refetch__pages=1, refetch__messages=messages, refetch__truncated=False)


def inject(injection: str, reason: str, messages: int) -> Tree:
    return span(
        "thread.inject",
        thread__ts="the thread",
        gate__reason=reason,
        inject__injection=injection,
        inject__messages=messages,
        inject__omitted=0,
    )


def asked(*children: Tree, compacted: bool | None = False, error: str = "") -> Tree:
    """`compacted` None: the turn did not get as far as to tell."""
    about = {"agent__name": "main", "conversation__id": "the session"}
    about |= {} if compacted is None else {"conversation__compacted": compacted}
    return span("invoke_agent main", *children, error=error, links=["session"], operation__name="invoke_agent", **about)


def chat(finish_reason: str = "end_turn", *, error: str = "") -> Tree:
    """`error`: it has no answer."""
    answered = {} if error else {"response__model": MODEL, "response__finish_reasons": [finish_reason]}
    return span(f"chat {MODEL}", operation__name="chat", request__model=MODEL, error=error, **answered)


def tool(name: str, *, error: str = "", **more: Any) -> Tree:
    return span(f"execute_tool {name}", operation__name="execute_tool", tool__name=name, error=error, **more)


def reset(cause: str, how: str, *, forgotten: int, epoch: int) -> Tree:
    about = {"reset__cause": cause, "reset__how": how, "reset__forgotten": forgotten, "session__epoch": epoch}
    return span("session.reset", conversation__id="the session", **about)


def start(how: str) -> Tree:
    return span("session.start", conversation__id="the session", session__account="main", reset__how=how)


CHAT = chat()
REPLY = span("slack.reply", reply__method="chat.postMessage", reply__chunks=1)


def told_of(spans: Sequence[Span], answer: Answer) -> Tree:
    """The one tree of an answer's trace."""
    return trace_of(spans, answer.trace_id, message=answer.asked, thread_ts=answer.thread_ts or "")


def trace_of(spans: Sequence[Span], trace_id: str, *, message: str, thread_ts: str) -> Tree:
    """The one tree of a trace about this message (team/channel/ts) in this thread."""
    sessions = {one["attributes"]["gen_ai.conversation.id"] for one in spans if one["name"] == "session.start"}
    team, channel, ts = message.split("/")
    names = {thread_ts: "the thread", ts: "the message", channel: "the channel", team: "the team"}
    return _tree(root_of(spans, trace_id), spans, names | dict.fromkeys(sessions, "the session"))


def run_of(spans: Sequence[Span], trace_id: str) -> Tree:
    """The one tree of a memory run's trace."""
    root = root_of(spans, trace_id)
    of_agent = [
        one["attributes"]["gen_ai.conversation.id"] for one in spans if one["trace_id"] == trace_id and "invoke_agent" in one["name"]
    ]
    return _tree(root, spans, dict.fromkeys(of_agent, "the worker"))


def root_of(spans: Iterable[Span], trace_id: str) -> Span:
    """A trace has one root, or it is none."""
    (one,) = [one for one in spans if one["trace_id"] == trace_id and not one["parent_id"]]
    return one


def orphans(spans: Iterable[Span]) -> list[str]:
    """Spans whose parent never arrived in their trace."""
    spans = list(spans)
    there = {(one["trace_id"], one["span_id"]) for one in spans}
    return [one["name"] for one in spans if one["parent_id"] and (one["trace_id"], one["parent_id"]) not in there]


def _tree(one: Span, spans: Sequence[Span], names: Mapping[str, str]) -> Tree:
    kind, told = one["name"].split(" ")[0], one["attributes"]
    chosen = CHOSEN.get(one["name"], CHOSEN.get(kind, ()))
    about = {_short(key): _named(told[key], names) for key in chosen if key in told}
    failed = one["status"] == "ERROR" or "error.type" in told
    links = [next((to["name"] for to in spans if to["span_id"] == link["span_id"]), "missing") for link in one["links"]]
    below = [other for other in spans if (other["trace_id"], other["parent_id"]) == (one["trace_id"], one["span_id"])]
    children = [_tree(child, spans, names) for child in sorted(below, key=lambda other: int(other["start"]))]
    return span(one["name"], *children, error=told["error.type"] if failed else "", **about, **({"links": links} if links else {}))


def _short(key: str) -> str:
    return next((key.removeprefix(prefix) for prefix in PREFIXES if key.startswith(prefix)), key)


def _named(value: object, names: Mapping[str, str]) -> object:
    return names.get(value, value) if isinstance(value, str) else value
