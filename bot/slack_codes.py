"""What Slack's words of refusal mean for a call that was meant to change something. Pure.

Slack says of its own failures that a part of the call may have succeeded before; a time-out or a lost connection says
nothing at all. So a code is one of: certainly not carried out, and worth another try; doubtful; or final.
"""

from __future__ import annotations

RATE_LIMITED = frozenset({"ratelimited", "rate_limited", "message_limit_exceeded"})
NEVER_SENT = frozenset({"connection_refused"})
TIMED_OUT = frozenset({"timeout", "request_timeout"})
_DOUBTFUL = TIMED_OUT | {"connection", "internal_error", "fatal_error", "service_unavailable", "invalid_response"}


def is_doubtful(code: str) -> bool:
    """It may have been carried out all the same."""
    return code in _DOUBTFUL or code.startswith("http_5")


def may_pass(code: str) -> bool:
    """The same call may succeed a little later."""
    return code in RATE_LIMITED or code in NEVER_SENT or is_doubtful(code)
