"""The oracle on hand-made ledgers: each finding fires on the smallest story that has it, and on nothing else."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from bot.local.model_steps import Refuse, Respond
from tests.integration.oracle import BUDGET_CHARS, COMPACTS_NEXT, Ledger, Mention, Posted, Said, Teller, Thread, judge

HERE, THERE = ("C1", "1000.000000"), ("C2", "1000.000000")
COMPACTION = "CRITICAL: Respond with TEXT ONLY. Do NOT call any tools."


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What a script sees of a request to the model."""

    session_id: str
    messages_text: str
    newest_user_text: str
    is_compaction: bool = False
    key: str = ""
    stream: bool = True


class Scene:
    """A bot that does by hand what a test says. `contexts`: what each session holds."""

    def __init__(self) -> None:
        self.ledger, self.posts = Ledger(), list[Posted]()
        self.teller = Teller(self.ledger)
        self.contexts: dict[str, list[str]] = {}
        self._now = 1000

    def say(self, thread: Thread = HERE, *, chars: int = 10) -> Said:
        token = self.ledger.token()
        return self.ledger.add(thread, self._ts(), token, f"{token} {'x' * chars}")

    def question(self, thread: Thread = HERE, *, lane: str = "main") -> Mention:
        said = self.say(thread)
        mention = Mention(said, token_of(said), lane, said.versions[0][0])
        self.ledger.mentions[mention.token] = mention
        return mention

    def ask(self, mention: Mention, *shown: Said | str, session: str = "s") -> str:
        """One request with a new prompt. Gives the model's answer, or "" where the plan had it another way."""
        self.put(mention, *shown, session=session)
        return self.again(session)

    def put(self, mention: Mention, *shown: Said | str, session: str = "s") -> None:
        """The prompt alone: the model has not seen it yet."""
        lines = [one if isinstance(one, str) else token_of(one) for one in shown]
        nonce = f"{len(self.teller.prompts):08x}"
        prompt = "\n".join([*lines, f'<message-{nonce} at="now">\n{mention.token} why?\n</message-{nonce}>'])
        self.contexts.setdefault(session, []).append(prompt)

    def again(self, session: str = "s") -> str:
        context = self.contexts[session]
        step = self.teller.take(Request(session_id=session, messages_text="\n".join(context), newest_user_text=newest(context)))
        if not isinstance(step.effect, Respond) or not step.effect.text:
            return ""
        context.append(step.effect.text)
        return step.effect.text

    def compact(self, session: str = "s", *, kept: int = 0) -> None:
        """`kept`: how many of the newest entries survive behind the summary."""
        context = self.contexts[session]
        asked = Request(session_id=session, messages_text="\n".join(context), newest_user_text=COMPACTION, is_compaction=True)
        effect = self.teller.take(asked).effect
        assert isinstance(effect, Respond) and effect.text
        self.contexts[session] = [effect.text, *context[len(context) - kept :]]

    def post(self, mention: Mention, text: str, *, thread: Thread | None = None, unread: bool = False) -> str:
        """Gives the answer's token."""
        mention.answered = next(self.ledger.steps)
        self.posts.append(Posted(thread or mention.said.thread, self._ts(), mention.said.ts, text, unread))
        return text.split()[0]

    def answer(self, mention: Mention, *shown: Said | str) -> str:
        return self.post(mention, self.ask(mention, *shown))

    def findings(self) -> dict[str, int]:
        self.ledger.add_answers(self.posts)
        return dict(+judge(self.ledger, self.teller, self.posts))

    def _ts(self) -> str:
        self._now += 1
        return f"{self._now}.000000"


def token_of(said: Said) -> str:
    token = said.versions[-1][1]
    assert token is not None
    return token


def newest(context: list[str]) -> str:
    return next(entry for entry in reversed(context) if "<message-" in entry)


@pytest.fixture
def scene() -> Scene:
    return Scene()


# -- nothing to find -------------------------------------------------------------------------------------------------------
def test_a_story_as_it_should_be_has_no_findings(scene: Scene) -> None:
    root, first = scene.say(), scene.question()
    scene.answer(first, root)
    later, second = scene.say(), scene.question()
    scene.answer(second, later)

    assert scene.findings() == {"answers": 2}


def test_after_a_compaction_the_thread_may_and_has_to_go_in_again(scene: Scene) -> None:
    root, first = scene.say(), scene.question()
    own = scene.answer(first, root)
    scene.compact()
    scene.answer(scene.question(), root, first.token, own)

    assert scene.findings() == {"answers": 2}


def test_a_fresh_session_is_a_new_life(scene: Scene) -> None:
    root, first = scene.say(), scene.question()
    own = scene.answer(first, root)
    second = scene.question()
    scene.post(second, scene.ask(second, root, first.token, own, session="another"))

    assert scene.findings() == {"answers": 2}


def test_what_the_budget_leaves_out_is_not_owed(scene: Scene) -> None:
    root, _, newer = scene.say(), scene.say(chars=BUDGET_CHARS), scene.say()
    scene.answer(scene.question(), root, newer)

    assert scene.findings() == {"answers": 1}


def test_a_prompt_that_survived_a_compaction_was_not_put_in_twice(scene: Scene) -> None:
    root, first = scene.say(), scene.question()
    own = scene.answer(first, root)
    later, second = scene.say(), scene.question()
    scene.put(second, later)
    scene.compact(kept=1)
    scene.again()
    scene.answer(second, root, first.token, own, later)

    assert scene.findings() == {"answers": 2}


# -- findings --------------------------------------------------------------------------------------------------------------
def test_an_answer_without_a_message_of_its_thread_is_amnesic(scene: Scene) -> None:
    scene.say()
    scene.answer(scene.question())

    assert scene.findings() == {"answers": 1, "amnesic answers": 1, "missing": 1}


def test_the_root_is_owed_however_much_stands_below_it(scene: Scene) -> None:
    _, _, newer = scene.say(), scene.say(chars=BUDGET_CHARS), scene.say()
    scene.answer(scene.question(), newer)

    assert scene.findings() == {"answers": 1, "amnesic answers": 1, "missing": 1}


def test_a_message_that_only_another_session_holds_is_missing(scene: Scene) -> None:
    root, first, second = scene.say(), scene.question(), scene.question()
    scene.answer(first, root)
    scene.post(second, scene.ask(second, session="another"))

    assert scene.findings() == {"answers": 2, "amnesic answers": 1, "missing": 2}


def test_an_own_answer_that_a_compaction_took_is_missing(scene: Scene) -> None:
    root, first = scene.say(), scene.question()
    scene.answer(first, root)
    scene.compact()
    scene.answer(scene.question(), root, first.token)

    assert scene.findings() == {"answers": 2, "amnesic answers": 1, "missing of its own": 1}


def test_a_summary_holds_nothing(scene: Scene) -> None:
    root, first = scene.say(), scene.question()
    scene.answer(first, root)
    scene.compact()
    scene.answer(scene.question())

    assert scene.findings() == {"answers": 2, "amnesic answers": 1, "missing": 2, "missing of its own": 1}


def test_the_wording_before_an_edit_is_not_enough(scene: Scene) -> None:
    root = scene.say()
    old = token_of(root)
    scene.ledger.change(root, scene.ledger.token(), "other words")
    scene.answer(scene.question(), old)

    assert scene.findings() == {"answers": 1, "amnesic answers": 1, "missing": 1, "outdated": 1}


def test_while_a_question_waits_either_wording_will_do_and_a_deleted_message_need_not_be_there(scene: Scene) -> None:
    root, gone = scene.say(), scene.say()
    first, second = scene.question(), scene.question()
    old = token_of(root)
    scene.ledger.change(root, scene.ledger.token(), "other words")
    scene.ledger.change(gone, None)
    scene.post(first, scene.ask(first, old))
    scene.post(second, scene.ask(second, root))

    assert scene.findings() == {"answers": 2}


def test_an_answer_that_owns_up_to_an_unread_thread_owes_nothing(scene: Scene) -> None:
    scene.say()
    question = scene.question()
    scene.post(question, scene.ask(question), unread=True)

    assert scene.findings() == {"answers": 1, "unread": 1}


def test_a_message_that_one_life_was_given_twice(scene: Scene) -> None:
    root = scene.say()
    scene.answer(scene.question(), root)
    scene.answer(scene.question(), root)

    assert scene.findings() == {"answers": 2, "put in twice": 1}


def test_an_answer_that_is_given_to_the_session_that_made_it(scene: Scene) -> None:
    root = scene.say()
    own = scene.answer(scene.question(), root)
    scene.answer(scene.question(), own)

    assert scene.findings() == {"answers": 2, "put in twice": 1}


@pytest.mark.parametrize("times", [0, 2])
def test_a_question_that_is_not_answered_once(scene: Scene, times: int) -> None:
    question = scene.question()
    text = scene.ask(question)
    for _ in range(times):
        scene.post(question, text)

    assert scene.findings()["answered not once"] == 1


def test_an_answer_to_nothing(scene: Scene) -> None:
    question = scene.question()
    text = scene.ask(question)
    scene.post(question, text)
    scene.posts.append(Posted(HERE, "2000.000000", "1999.000000", text))

    assert scene.findings() == {"answers": 1, "answers to nothing": 1}


def test_an_answer_in_another_thread(scene: Scene) -> None:
    question = scene.question()
    scene.post(question, scene.ask(question), thread=("C1", "1111.000000"))

    assert scene.findings() == {"answers": 1, "wrong thread": 1}


def test_an_answer_to_the_question_before(scene: Scene) -> None:
    first, second = scene.question(), scene.question(THERE)
    text = scene.ask(first)
    scene.ask(second)
    scene.post(first, text)
    scene.post(second, text)

    assert scene.findings()["wrong thread"] == 1


def test_a_post_that_no_model_made(scene: Scene) -> None:
    question = scene.question()
    scene.ask(question)
    scene.post(question, "Sorry.")

    assert scene.findings() == {"no answer of the model": 1}


def test_order_is_kept_in_a_lane_and_owed_to_no_other(scene: Scene) -> None:
    first, second, elsewhere = scene.question(), scene.question(THERE), scene.question(("C3", "1"), lane="other")
    for question in (elsewhere, second, first):
        scene.answer(question)

    assert scene.findings() == {"answers": 3, "out of order": 1}


def test_a_context_that_lost_a_prompt_without_a_summary(scene: Scene) -> None:
    root, first = scene.say(), scene.question()
    scene.answer(first, root)
    scene.contexts["s"].clear()
    scene.answer(scene.question(THERE))

    assert scene.findings() == {"answers": 2, "lost unannounced": 1}


# -- mishaps ---------------------------------------------------------------------------------------------------------------
def test_a_plan_is_carried_out_on_the_first_prompt_of_its_question_only(scene: Scene) -> None:
    question = scene.question()
    scene.teller.plans[question.token] = "tool_loop"

    assert scene.ask(question) == "" and scene.again() != "" and scene.ask(question) != ""
    assert scene.teller.happened == {"tool_loop": 1}


def test_a_prompt_is_called_too_long_only_where_there_is_a_past_to_compact(scene: Scene) -> None:
    questions = [scene.question() for _ in range(4)]
    scene.teller.plans = {question.token: "too_long" for question in questions}

    assert [scene.ask(question) != "" for question in questions] == [True, True, False, False]


def test_the_usage_that_makes_the_cli_compact_comes_with_the_planned_answer(scene: Scene) -> None:
    question = scene.question()
    scene.teller.plans[question.token] = "compact_next"
    request = Request(
        session_id="s", messages_text="", newest_user_text=f'<message-0000000a at="now">\n{question.token}\n</message-0000000a>'
    )

    step = scene.teller.take(request)

    assert step.usage == COMPACTS_NEXT and not isinstance(step.effect, Refuse)
