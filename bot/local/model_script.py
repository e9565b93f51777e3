"""What the embedded model is told to do instead of answering by its rules, step by step. For tests, the demo and load.

Must stay true: one request takes at most one step, and each step is taken `times` times; a step bound to a `match` (in the newest user
text) or a `key` (the credential) waits for a request that fits and holds up no other. A compaction step waits for a compaction request,
and lasts as long as the CLI tries that compaction: until its session asks something else.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any, TypedDict, Unpack

from bot.local.model_steps import Asking, BreakStream, Drop, Effect, Hang, Refuse, Respond, Step, ToolCall


class Binding(TypedDict, total=False):
    """Options of every step. `usage`: tokens of context that its answer reports. `memory`: for a memory worker, and no one else."""

    match: str
    key: str
    memory: bool
    times: int
    usage: int


class BadStep(ValueError):
    """A step that nobody can follow; the text says what is wrong."""


ERROR_TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    529: "overloaded_error",
}


class Script:
    def __init__(self) -> None:
        self._steps: list[Step] = []

    @property
    def pending(self) -> int:
        """Steps not yet used up; a test that ends with some did not test what it meant to."""
        return len(self._steps)

    def clear(self) -> None:
        self._steps.clear()

    def take(self, asked: Asking) -> Step | None:
        if not asked.is_compaction:
            self._end_compaction(asked.session_id)
        step = next((step for step in self._steps if step.fits(asked)), None)
        if step is not None and asked.is_compaction:
            step.compacting = asked.session_id
        elif step is not None:
            self._use(step)
        return step

    def _end_compaction(self, session_id: str) -> None:
        for step in [step for step in self._steps if step.compacting == session_id]:
            step.compacting = None
            self._use(step)

    def _use(self, step: Step) -> None:
        step.times -= 1
        if step.times < 1:
            self._steps = [other for other in self._steps if other is not step]

    def add(self, spec: Mapping[str, Any]) -> None:
        """A step as JSON: `{"step": "usage", "tokens": 90000, "match": "release"}`. Raises BadStep, and then nothing was added."""
        arguments = dict(spec)
        name = arguments.pop("step", None)
        method = STEPS.get(name) if isinstance(name, str) else None
        if method is None:
            raise BadStep(f"step {name!r} is unknown; known: {', '.join(STEPS)}")
        _check_arguments(str(name), method, arguments)
        method(self, **arguments)

    def usage(self, tokens: int, **binding: Unpack[Binding]) -> None:
        """The next answer reports that its prompt filled `tokens` of context."""
        binding["usage"] = tokens
        self._then(Respond(), binding)

    def say(self, text: str, **binding: Unpack[Binding]) -> None:
        self._then(Respond(text=text), binding)

    def tool(self, name: str, input: Mapping[str, Any], **binding: Unpack[Binding]) -> None:
        """One tool call; the request that brings its result is answered as any other."""
        self._then(Respond(text="", tool=ToolCall(name, input)), binding)

    def empty(self, **binding: Unpack[Binding]) -> None:
        self._then(Respond(text=""), binding)

    def stop(self, reason: str, **binding: Unpack[Binding]) -> None:
        """An answer that ends with `reason` (`max_tokens`, `refusal`, …)."""
        self._then(Respond(stop_reason=reason), binding)

    def slow(self, seconds: float, **binding: Unpack[Binding]) -> None:
        self._then(Respond(seconds=seconds), binding)

    def hang(self, **binding: Unpack[Binding]) -> None:
        self._then(Hang(), binding)

    def drop(self, **binding: Unpack[Binding]) -> None:
        self._then(Drop(), binding)

    def stream_error(self, type: str = "overloaded_error", **binding: Unpack[Binding]) -> None:
        """The CLI tries `CLAUDE_CODE_MAX_RETRIES` times more, then asks without a stream: `times` above that is not used up."""
        self._then(BreakStream(type), binding)

    def error(self, status: int, type: str = "", message: str = "", retry_after: float | None = None, **binding: Unpack[Binding]) -> None:
        self._then(_refusal(status, type=type, message=message, retry_after=retry_after), binding)

    def too_long(self, **binding: Unpack[Binding]) -> None:
        self._then(_refusal(400, message="prompt is too long: 250000 tokens > 200000 maximum"), binding)

    def limit(self, resets_at: int, **binding: Unpack[Binding]) -> None:
        """A usage limit that is reached. `resets_at`: seconds since the epoch."""
        headers = _unified("rejected", resets_at) | {"x-should-retry": "false"}
        message = "This request would exceed your account's rate limit. Please try again later."
        self._then(Refuse(status=429, type=ERROR_TYPES[429], message=message, headers=headers), binding)

    def near_limit(self, resets_at: int, **binding: Unpack[Binding]) -> None:
        """An answer that says that most of the usage limit is spent. The CLI tells of it where it was started with an OAuth token."""
        window = {"5h-utilization": "0.93", "5h-reset": str(resets_at), "5h-surpassed-threshold": "0.9"}
        self._then(Respond(headers=_unified("allowed_warning", resets_at, **window)), binding)

    def compact_error(self, status: int, **binding: Unpack[Binding]) -> None:
        self._then(_refusal(status), binding, compaction=True)

    def compact_hang(self, **binding: Unpack[Binding]) -> None:
        self._then(Hang(), binding, compaction=True)

    def _then(self, effect: Effect, binding: Binding, *, compaction: bool = False) -> None:
        self._steps.append(Step(effect=effect, compaction=compaction, **binding))


STEPS: dict[str, Callable[..., None]] = {
    method.__name__: method
    for method in (
        *(Script.usage, Script.say, Script.tool, Script.empty, Script.stop, Script.slow, Script.hang, Script.drop),
        *(Script.stream_error, Script.error, Script.too_long, Script.limit, Script.near_limit),
        *(Script.compact_error, Script.compact_hang),
    )
}
_BINDING_TYPES: dict[str, type] = {"match": str, "key": str, "memory": bool, "times": int, "usage": int}
_TYPES: dict[str, tuple[type, ...]] = {
    **{name: (kind,) for name, kind in _BINDING_TYPES.items()},
    **dict.fromkeys(("text", "name", "reason", "type", "message"), (str,)),
    **dict.fromkeys(("tokens", "status", "resets_at"), (int,)),
    **dict.fromkeys(("seconds", "retry_after"), (int, float)),
    "input": (dict,),
}


def _check_arguments(step: str, method: Callable[..., None], arguments: Mapping[str, Any]) -> None:
    try:
        inspect.signature(method).bind(None, **arguments)
    except TypeError as wrong:
        raise BadStep(f"step {step!r}: {wrong}") from wrong
    for name, value in arguments.items():
        if name not in _TYPES:
            raise BadStep(f"step {step!r} does not take {name!r}")
        if isinstance(value, bool) != (_TYPES[name] == (bool,)) or not isinstance(value, _TYPES[name]):
            raise BadStep(f"step {step!r}: {name!r} must be {_TYPES[name][-1].__name__}, not {value!r}")


def _unified(status: str, resets_at: int, **more: str) -> dict[str, str]:
    told = {"status": status, "reset": str(resets_at), "representative-claim": "five_hour", **more}
    return {f"anthropic-ratelimit-unified-{name}": value for name, value in told.items()}


def _refusal(status: int, *, type: str = "", message: str = "", retry_after: float | None = None) -> Refuse:
    headers = {} if retry_after is None else {"retry-after": f"{retry_after:g}"}
    kind = type or ERROR_TYPES.get(status, "api_error")
    return Refuse(status=status, type=kind, message=message or f"scripted {kind}", headers=headers)
