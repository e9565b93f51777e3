"""What a history of consolidations is asked for, and a model that does it by rule: each claim says what is to become of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from memory.model_end import ModelEnd, ModelHow
from telemetry.memory_events import TokenUsage
from tests.memory.consolidating import SESSION, Hand, RuleModel
from tests.memory.dying import SECOND_SESSION

WORKSPACE, ALICE = "workspace", "user:U0ALICE"

# A claim is `verb token targets`; its token stands in one line of one record afterwards, or nowhere. Each phase is staged when the one
# before is worked off; it has batches of (scope, session, claims).
PHASES: tuple[tuple[tuple[str, str, tuple[str, ...]], ...], ...] = (
    (
        (WORKSPACE, SESSION, ("write k01 padding", "write k02", "write k03", "write k04")),
        (ALICE, SECOND_SESSION, ("write k05", "write k06")),
    ),
    (
        (WORKSPACE, SESSION, ("add k07 k01", "merge k08 k02 k03", "same k09 k01", "discard k10")),
        (ALICE, SECOND_SESSION, ("make_one k11 k05 k06", "never k12")),
    ),
    ((WORKSPACE, SESSION, ("trim k13 k01", "drop k14 k04", "know k15", "later k16 k17", "write k17")),),
)
CLAIMS = {claim.split()[1]: claim for phase in PHASES for _, _, claims in phase for claim in claims}
DROPPED_BY = {claim.split()[2]: token for token, claim in CLAIMS.items() if claim.startswith("drop")}
FAILS_AT = "k07"  # the first run that is given it fails
USAGE = TokenUsage(input=700, output=7)


async def obeys(hand: Hand) -> ModelEnd:
    for one in await hand.candidates():
        verb, token, *targets = one["claim"].split()
        await _OBEY[verb](hand, one["id"], token, targets)
    return ModelEnd(model="claude-x", usage=USAGE, cost_usd=0.01)


@dataclass
class FailingOnce(RuleModel):
    """`failed` outlives the process."""

    failed: bool = False

    async def work(self, request: Any, call: Any) -> ModelEnd:
        if FAILS_AT in request.prompt and not self.failed:
            self.failed = True
            return ModelEnd(how=ModelHow.ERROR, usage=TokenUsage(input=9))
        return await super().work(request, call)


def line(token: str) -> str:
    return f"{token} stands."


def tokens(text: bytes) -> list[str]:
    """One for each line in which it stands."""
    return [word for word in text.decode(errors="replace").split() if word in CLAIMS]


async def _body(hand: Hand, token: str) -> str:
    """\"\": there is no such record."""
    return str((await hand("memory_read", kind="decision", slug=f"note-{token}")).get("content", ""))


async def write(hand: Hand, one: str, token: str, targets: Sequence[str]) -> None:
    """Where the name is taken, under another."""
    numbers = " ".join(word[1:] for word in CLAIMS[token].split()[2:])  # a record holds a claim with its numbers
    content = "\n".join([line(token), *targets, *([f"({numbers})"] if numbers and not targets else [])])
    for again in ("", "-2", "-3"):
        if "error" not in await hand.write(f"note-{token}{again}", one, content=content):
            return


async def know(hand: Hand, one: str, token: str, targets: Sequence[str]) -> None:
    fields = {"title": "A fact", "description": "When it comes up", "content": line(token), "knowledge_kind": "fact"}
    for again in ("", "-2", "-3"):
        if "error" not in await hand("knowledge_write", slug=f"note-{token}{again}", candidates=[one], **fields):
            return


async def add(hand: Hand, one: str, token: str, targets: Sequence[str]) -> None:
    name, old = f"note-{targets[0]}", line(targets[0])
    said = await hand("memory_edit", kind="decision", slug=name, old_text=old, new_text=f"{old}\n{line(token)}", candidates=[one])
    if "error" in said:
        await write(hand, one, token, ())


async def merge(hand: Hand, one: str, token: str, targets: Sequence[str]) -> None:
    """Into the first of them."""
    await _merged(hand, one, token, targets[0], targets[1:], [await _body(hand, each) for each in targets])


async def make_one(hand: Hand, one: str, token: str, targets: Sequence[str]) -> None:
    """Of all of them, under a name that is new."""
    await _merged(hand, one, token, token, targets, [await _body(hand, each) for each in targets])


async def _merged(hand: Hand, one: str, token: str, into: str, gone: Sequence[str], bodies: Sequence[str]) -> None:
    content, slugs = "\n".join([*bodies, line(token)]), [f"note-{each}" for each in gone]
    if all(bodies):
        said = await hand("memory_merge", kind="decision", slug=f"note-{into}", from_=slugs, content=content, candidates=[one])
        if "error" not in said:
            return
    await write(hand, one, token, ())


async def trim(hand: Hand, one: str, token: str, targets: Sequence[str]) -> None:
    await hand("memory_trim", kind="decision", slug=f"note-{targets[0]}", remove=["padding"], why="It says nothing.")
    await _resolve(hand, one, "discarded")


async def drop(hand: Hand, one: str, token: str, targets: Sequence[str]) -> None:
    await hand("memory_drop", kind="decision", slug=f"note-{targets[0]}", category="noisy", why="Nobody needs it.")
    await _resolve(hand, one, "discarded")


async def discard(hand: Hand, one: str, token: str, targets: Sequence[str]) -> None:
    await _resolve(hand, one, "discarded")


async def same(hand: Hand, one: str, token: str, targets: Sequence[str]) -> None:
    if await _body(hand, targets[0]):
        await _resolve(hand, one, "duplicate", record=f"decision/note-{targets[0]}")
    else:
        await _resolve(hand, one, "deferred")


async def later(hand: Hand, one: str, token: str, targets: Sequence[str]) -> None:
    """Put off until the other is there; without a word, if anything else is said."""
    if await _body(hand, targets[0]):
        await write(hand, one, token, ())
    elif len(await hand.candidates()) == 1:
        await _resolve(hand, one, "deferred")


async def never(hand: Hand, one: str, token: str, targets: Sequence[str]) -> None:
    await _resolve(hand, one, "deferred")


async def _resolve(hand: Hand, one: str, disposition: str, **more: str) -> None:
    await hand("staging_resolve", candidate=one, disposition=disposition, reason="So it was asked.", **more)


_OBEY = {each.__name__: each for each in (write, know, add, merge, make_one, trim, drop, discard, same, later, never)}
DEPENDS = {"same", "later"}  # on a record that a person may have removed
HELD = {each.__name__ for each in (write, know, add, merge, make_one, later)}
