"""Why the bot answered as it did, as plain values: one `Explanation`, whatever it was gathered from.

What must stay true: no text of a message or prompt is in it, only ids, words of ours and numbers. The page in the
terminal, the sentence in Slack and the JSON are all made from it, so that they cannot tell different stories.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

JSON_VERSION = 1
COST_DIGITS = 6  # of a dollar; the rest is what adding up floats leaves
# Beside the outcomes of `telemetry.events.Outcome` and the statuses of a memory run.
WAITING, RUNNING, INTERRUPTED = "waiting", "running", "interrupted"
OK, LATE = "ok", "late"
ROOT = "process slack"


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedMessage:
    """`user` is an id and `name` what Slack calls that person; "" where the inbox does not hold the message any more."""

    team: str = ""
    channel: str = ""
    ts: str = ""
    thread_ts: str = ""
    user: str = ""
    name: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Gate:
    """`tries`: how often the gate was asked, because the context was lost before an answer was made."""

    decision: str = ""
    reason: str = ""
    injection: str = ""
    epoch: int | None = None
    known_threads: int | None = None
    tries: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """Messages of the thread: `read` from Slack, `injected` into the prompt, `omitted` by its budget."""

    read: int = 0
    injected: int = 0
    omitted: int = 0
    incomplete: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Reset:
    cause: str
    how: str = ""
    epoch: int | None = None
    forgotten: int | None = None
    pre_tokens: int | None = None
    post_tokens: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """`resets` on the way to this answer; `since`: those after it."""

    route: str = ""
    key: str = ""
    id: str = ""
    account: str = ""
    resets: tuple[Reset, ...] = ()
    since: tuple[Reset, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """`start_ms` from the beginning. `ms` None: it has not ended, or (from the log) is a moment.

    `status`: `ok`, `late`, `running`, `interrupted`, `cancelled`, or the class of its failure.
    """

    name: str
    start_ms: float
    ms: float | None
    status: str = OK
    depth: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelCall:
    """`input_tokens` with those from the cache. The CLI tells the cost of a prompt: it stands at the last of its calls."""

    model: str
    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_read_tokens: int | None = None
    cost_usd: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    name: str
    ms: float | None
    status: str = OK


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """What a memory run says of itself; `counts`: what it did, by word."""

    id: str = ""
    worker: str = ""
    trigger: str = ""
    counts: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """`began`: seconds since the epoch. `kind`: reply, run, session, reset, other. `source`: trace, log, inbox.

    `reason`: why it failed or was dropped. `previous` and `next`: trace ids of other attempts at the same message.
    `ahead`: messages in front of one that waits. `bot_runs` False: what waits is answered at the next start.
    """

    trace_id: str
    kind: str = "reply"
    name: str = ROOT
    source: str = "trace"
    message: AskedMessage = AskedMessage()
    outcome: str = ""
    reason: str = ""
    began: float | None = None
    seconds: float | None = None
    attempt: int = 1
    previous: str = ""
    next: str = ""
    ahead: int | None = None
    bot_runs: bool = True
    gate: Gate = Gate()
    history: History = History()
    session: Session = Session()
    parts: tuple[Part, ...] = ()
    model: tuple[ModelCall, ...] = ()
    tools: tuple[Tool, ...] = ()
    memory: tuple[Tool, ...] = ()
    run: Run = Run()


def as_json(explanation: Explanation, *, ref: str, links: Mapping[str, str]) -> dict[str, Any]:
    """What `insomnia why --json` prints; null: not known, or there is none. Why there is no answer is `parts[0].status`."""
    e = explanation
    gate = {"decision": e.gate.decision, "reason": e.gate.reason, "injection": e.gate.injection, "epoch": e.gate.epoch}
    session = {"route": e.session.route, "key": e.session.key, "id": e.session.id, "account": e.session.account}
    message = {"team": e.message.team, "channel": e.message.channel, "ts": e.message.ts, "thread_ts": e.message.thread_ts}
    return {
        "v": JSON_VERSION,
        "ref": ref,
        "trace_id": e.trace_id or None,
        "message": _or_null(message),
        "outcome": e.outcome or None,
        "gate": _or_null(gate),
        "history": {"read": e.history.read, "omitted": e.history.omitted, "incomplete": e.history.incomplete},
        "session": {**_or_null(session), "resets": [asdict(reset) for reset in e.session.resets]},
        "parts": [{"name": p.name, "start_ms": p.start_ms, "ms": p.ms, "status": p.status} for p in e.parts],
        "model": [{**asdict(call), "cost_usd": None if call.cost_usd is None else round(call.cost_usd, COST_DIGITS)} for call in e.model],
        "tools": [asdict(tool) for tool in e.tools],
        "memory": [asdict(tool) for tool in e.memory],
        "links": dict(links),
    }


def _or_null(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {key: None if value == "" else value for key, value in fields.items()}
