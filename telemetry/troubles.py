"""Trouble inside telemetry itself: caught here, said once a kind on stderr, counted; it never reaches a reply.

The SDK's own error logging comes here too: with a collector that is down it would write a line per attempt for ever.
What must stay true: no secret is in a line, whoever worded it; no trouble is told by a traceback.
"""

from __future__ import annotations

import logging
import os
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from telemetry.secrets_out import without_secrets

MAX_LINE = 300  # a line of stderr, not a page: some exporters put whole exception chains into a message


class Troubles:
    def __init__(self, *, on_failure: Callable[[], None] = lambda: None) -> None:
        self.counts: Counter[str] = Counter()
        self.on_failure = on_failure
        self._lock = threading.Lock()

    @contextmanager
    def caught(self, what: str) -> Iterator[None]:
        """The one boundary between telemetry and the bot: whatever goes wrong inside ends here."""
        try:
            yield
        except Exception as error:  # noqa: BLE001 a sink may fail in any way, and none of them may stop a reply
            self.say(what, f"{what} failed: {type(error).__name__}: {error}")
            try:
                self.on_failure()
            except Exception:  # noqa: BLE001 the counter is a sink as well; the line above was said
                self.counts["failure counter"] += 1

    def say(self, kind: str, text: str) -> None:
        with self._lock:
            self.counts[kind] += 1
            if self.counts[kind] > 1:
                return
        line = " ".join(without_secrets(text, os.environ).split())[:MAX_LINE]
        # stderr may be closed or gone with its terminal
        try:
            print(f"insomnia: telemetry: {line} (said once)", file=sys.stderr, flush=True)
        except (OSError, ValueError):
            self.counts["stderr"] += 1


class _SdkLog(logging.Handler):
    def __init__(self, troubles: Troubles) -> None:
        super().__init__(logging.WARNING)
        self._troubles = troubles

    def emit(self, record: logging.LogRecord) -> None:
        # The template, not the message: one kind, however many endpoints, delays and batches it names.
        self._troubles.say(str(record.msg), record.getMessage())


def hear_sdk_log(troubles: Troubles) -> None:
    """Takes the log of the SDK, and of the library that it sends with, for the rest of the process.

    Their threads may still complain after the providers were given up.
    """
    for name in ("opentelemetry", "urllib3"):
        log = logging.getLogger(name)
        log.propagate = False
        log.handlers = [_SdkLog(troubles)]
