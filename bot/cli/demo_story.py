"""The demo's story: each step does something real, looks at what really happened, and says what it saw.

A step's name is an interface (CI and people grep for it); so is the order, since each builds on the one before.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator

from bot.cli import CommandError, demo_memory
from bot.cli.demo_bot import DemoBot
from bot.cli.demo_steps import (
    BELOW_BOTH,
    GENERAL,
    HIRING,
    OVER_AUTOCOMPACT,
    OVER_ROTATE_AT,
    RELEASE,
    Act,
    Seen,
    Step,
    gate_of,
    gate_told,
    many,
    needed,
)

QUESTION = "Why does 4.2 not go out on Thursday 29 October, and what is the new date?"
FACT = "3 November"  # in a message of the old thread, and in no question
SPANS = ("process slack", "lane.wait", "thread.gate", "thread.refetch", "thread.inject", "invoke_agent main", "slack.reply")


def steps(bot: DemoBot) -> Iterator[Step]:
    seen = Seen()
    for act in ACTS:
        try:
            ok, evidence = act(bot, seen)
        except CommandError as error:
            ok, evidence = False, str(error)
        yield Step(act.__name__.removeprefix("_"), ok, evidence)


def _old_thread_refetched(bot: DemoBot, seen: Seen) -> tuple[bool, str]:
    old = next(t for t in bot.threads(RELEASE) if "4.2" in t["first_words"])
    seen.thread = old["thread_ts"]
    a = seen.first = bot.ask(RELEASE, seen.thread, QUESTION)
    ok = gate_of(a) == ("refetched", "no_session", "full") and a.gate["messages"] == old["messages"] and old["age_days"] > 25
    return ok, f"a thread of {old['messages']} messages, {int(old['age_days'])} days old: {gate_told(a)}"


def _answer_from_old_thread(bot: DemoBot, seen: Seen) -> tuple[bool, str]:
    a = needed(seen.first)
    return FACT in a.text and FACT in a.seen and FACT not in QUESTION, f"the bot answered: {a.text}"


def _second_message_known(bot: DemoBot, seen: Seen) -> tuple[bool, str]:
    a = bot.ask(RELEASE, seen.thread, "And which node was it?")
    names = [s["name"] for s in bot.trace(a.trace_id)]
    ok = gate_of(a) == ("known", "held", None) and "thread.refetch" not in names and "<thread-" not in a.prompt
    return ok, f"{gate_told(a)}; no Slack read in its trace, no thread text in its prompt"


def _others_messages_injected(bot: DemoBot, seen: Seen) -> tuple[bool, str]:
    bot.tell(RELEASE, seen.thread, "The spare node kestrel-12 arrives on 9 December.")
    a = bot.ask(RELEASE, seen.thread, "When does the spare node kestrel-12 arrive?")
    ok = gate_of(a) == ("known", "held_delta", "delta") and a.gate["messages"] == 1 and "9 December" in a.text
    return ok, f"{gate_told(a)}; answered from it: {a.text}"


def _rotate_resets(bot: DemoBot, seen: Seen) -> tuple[bool, str]:
    bot.script(step="usage", tokens=OVER_ROTATE_AT)
    bot.ask(RELEASE, seen.thread, "Thank you.")
    return _read_back(bot, seen, cause="rotate_tokens", reason="after_rotate")


def _auto_compaction_resets(bot: DemoBot, seen: Seen) -> tuple[bool, str]:
    bot.ask(RELEASE, seen.thread, "Who wrote about it first?")
    bot.script(step="usage", tokens=OVER_AUTOCOMPACT)
    bot.ask(RELEASE, seen.thread, "Thank you again.")
    other = bot.threads(GENERAL)[0]
    bot.ask(GENERAL, other["thread_ts"], "What is this thread about?")  # the CLI compacts as this turn begins
    return _read_back(bot, seen, cause="compaction_auto", reason="after_compaction")


def _compaction_inside_turn_asks_again(bot: DemoBot, seen: Seen) -> tuple[bool, str]:
    bot.script(step="tool", name="no_such_tool", input={}, usage=OVER_AUTOCOMPACT)
    a = bot.ask(RELEASE, seen.thread, QUESTION)
    asked = [s for s in bot.trace(a.trace_id) if s["name"].startswith("invoke_agent")]
    compacted = [bool(s["attributes"].get("gen_ai.conversation.compacted")) for s in asked]
    ok = gate_of(a)[:2] == ("refetched", "after_compaction") and compacted == [True, False] and FACT in a.text and FACT in a.prompt
    return ok, f"asked {len(asked)} times, the first answer was made from a summary and not posted; {gate_told(a)}"


def _resume_resets(bot: DemoBot, seen: Seen) -> tuple[bool, str]:
    code = bot.stop()
    bot.start()
    ok, evidence = _read_back(bot, seen, cause="restart", reason="after_restart", met=True)
    how = {s["attributes"]["insomnia.reset.how"] for s in bot.resets("restart")}
    return ok and code == 0 and how == {"resume"}, f"bot stopped (exit {code}) and started, session resumed; {evidence}"


def _failed_fetch_not_marked(bot: DemoBot, seen: Seen) -> tuple[bool, str]:
    old = bot.threads(GENERAL)[0]["thread_ts"]
    bot.slack_fails("conversations.replies", "missing_scope")
    failed = bot.ask(GENERAL, old, "What was decided here?")
    bot.slack_works()
    mended = bot.ask(GENERAL, old, "And now?")
    ok = (
        gate_of(failed)[:2] == ("refetch_failed", "missing_scope")
        and "could not read" in failed.text
        and mended.gate["decision"] == "refetched"
    )
    return ok, f"first {gate_told(failed)}, and the reply says so; then {gate_told(mended)}"


def _trace_complete(bot: DemoBot, seen: Seen) -> tuple[bool, str]:
    spans = bot.trace(needed(seen.first).trace_id)
    ids, names = {s["span_id"] for s in spans}, [s["name"] for s in spans]
    roots = [s for s in spans if not s["parent_id"]]
    orphans = [s["name"] for s in spans if s["parent_id"] and s["parent_id"] not in ids]
    missing = [name for name in SPANS if name not in names]
    ok = len(roots) == 1 and not orphans and not missing and any(n.startswith("chat ") for n in names)
    reason = roots[0]["attributes"].get("insomnia.gate.reason") if roots else None
    return (
        ok and reason == "no_session",
        f"{len(spans)} spans, {len(roots)} root, {len(orphans)} orphans: {', '.join(dict.fromkeys(names))}",
    )


def _why_explains_reply(bot: DemoBot, seen: Seen) -> tuple[bool, str]:
    first = needed(seen.first)
    why = json.loads(bot.command("why", first.trace_id, "--json"))
    page = bot.command("why", first.trace_id)
    said = " ".join(page.split())
    explained = "the thread was read again from Slack, because there was no session yet" in said and seen.thread in said
    same = why["gate"]["reason"] == "no_session" and why["history"]["read"] == first.gate.get("messages")
    return explained and same and FACT not in page, said[: said.index(" Where the time went")]


def _bot_log_line(bot: DemoBot, seen: Seen) -> tuple[bool, str]:
    first = needed(seen.first)
    lines = [json.loads(line) for line in bot.command("logs", "bot", "--json").splitlines()]
    of_first = {line["event"]: line for line in lines if line.get("trace_id") == first.trace_id}
    ok = {"gate_decision", "thread_refetched", "reply"} <= of_first.keys() and FACT not in json.dumps(lines, ensure_ascii=False)
    told = of_first.get("reply", {})
    return ok, f"{len(lines)} lines, {len(of_first)} of them of the first reply; its last: {json.dumps(told, ensure_ascii=False)}"


def _status_line(bot: DemoBot, seen: Seen) -> tuple[bool, str]:
    for _ in bot.patience():  # the line tells an age in seconds, and the two are asked one after the other
        line, status = bot.command("status", "--line").strip(), json.loads(bot.command("status", "--json"))
        if status["line"] == line:
            break
    (session,) = [s for s in status["sessions"] if s["route"] == "main"]
    ok = bool(line) and status["line"] == line and status["bot"]["up"] and session["known_threads"] > 0
    return ok, f"{line}; bot up, route main {session['state']} with {many(session['known_threads'], 'known thread')}"


def _account_switch_resets(bot: DemoBot, seen: Seen) -> tuple[bool, str]:
    bot.script(step="limit", resets_at=int(time.time()) + 3_600)  # of the account that is asked next
    ok, evidence = _read_back(bot, seen, cause="account_switch", reason="after_account_switch", met=True)
    accounts = {a["name"]: a["state"] for a in json.loads(bot.command("status", "--json"))["accounts"]}
    return ok and accounts == {"first": "limited", "second": "available"}, f"accounts {json.dumps(accounts)}; {evidence}"


def _hibernate_resets(bot: DemoBot, seen: Seen) -> tuple[bool, str]:
    before = len(bot.resets("hibernate"))  # the steps before this one have asked elsewhere too
    other = bot.ask(HIRING, bot.threads(HIRING)[0]["thread_ts"], "What is this thread about?")
    ok, evidence = _read_back(bot, seen, cause="hibernate", reason="after_resume", before=before)
    return ok and other.outcome == "answered", f"another session took the only place for a process; {evidence}"


def _inferred_compaction_resets(bot: DemoBot, seen: Seen) -> tuple[bool, str]:
    bot.script(step="usage", tokens=BELOW_BOTH)
    bot.ask(RELEASE, seen.thread, "Thank you once more.")
    return _read_back(bot, seen, cause="compaction_inferred", reason="after_compaction", met=True)


ACTS: tuple[Act, ...] = (
    _old_thread_refetched,
    _answer_from_old_thread,
    _second_message_known,
    _others_messages_injected,
    _rotate_resets,
    _auto_compaction_resets,
    _compaction_inside_turn_asks_again,
    _resume_resets,
    _failed_fetch_not_marked,
    _trace_complete,
    _why_explains_reply,
    _bot_log_line,
    _status_line,
    *demo_memory.EXTRACTION,
    *demo_memory.CONSOLIDATION,
    _account_switch_resets,
    _hibernate_resets,
    _inferred_compaction_resets,
)


def _read_back(bot: DemoBot, seen: Seen, *, cause: str, reason: str, met: bool = False, before: int = 0) -> tuple[bool, str]:
    """After a reset: the next message in the thread reads it again, and its text is in the request that reached the model.

    `met`: the reset is met by that message itself. `before`: resets of that cause that others brought about.
    """
    resets = [] if met else bot.resets(cause)[before:]
    a = bot.ask(RELEASE, seen.thread, QUESTION)
    resets = resets or bot.resets(cause)[before:]
    ok = gate_of(a)[:2] == ("refetched", reason) and FACT in a.prompt and FACT in a.text and len(resets) == 1
    forgot = int(resets[0]["attributes"]["insomnia.reset.forgotten"]) if resets else 0
    told = f"{many(len(resets), 'reset')} {cause}, {many(forgot, 'thread')} forgotten"
    return ok, f"{told}; {gate_told(a)}; the thread's text is in the request that reached the model"
