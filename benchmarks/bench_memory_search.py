"""What a search of the memory costs, as ratios within one run: against reading every text through, and with ever more records.

Run it with `make bench`. Each figure has a bar; the exit code is 1 where one is missed.
"""

from __future__ import annotations

import random
import statistics
import sys
import time
from collections.abc import Callable, Sequence

from memory.search import Document, Index
from memory.search_terms import fold, query_terms

FEW, MANY = 250, 2_000  # the store warns at 1,500 records and takes 2,000
ROUNDS = 7
KANJI = "見積予算承認納期変更仕様確認会議資料更新担当修正試験環境本番障害対応記憶統合抽出検索実装監視権限費用契約人事採用教育運用保守移行"
KANA = "のをにはがとでもからまでです、。"
LATIN = ("deploy", "review", "release", "budget", "server", "session", "token", "customer", "refund", "policy", "timeout", "backup")
QUERIES = ("記憶の統合はどうなりましたか", "budget review", "見積の承認は誰に頼めばいいですか？", "deploys", "税", "API", "本番 障害")


def main() -> int:
    few, many = _documents(FEW), _documents(MANY)
    small, large = Index(few), Index(many)
    kept = [
        _told(f"a query of {MANY:,} records / reading them all through", _ask(large), lambda: _scan(many), bar=0.2),
        _told(f"a query of {MANY:,} records / of {FEW:,} ({MANY // FEW} times as many)", _ask(large), _ask(small), bar=16),
        _told(f"building an index of {MANY:,} / of {FEW:,}", lambda: Index(many), lambda: Index(few), bar=16),
        _told(f"taking one changed record in / building {MANY:,}", lambda: large.put(many[7]), lambda: Index(many), bar=0.005),
    ]
    return 0 if all(kept) else 1


def _documents(count: int) -> list[Document[int]]:
    chance = random.Random(4)
    return [Document(n, _text(chance, 4), _text(chance, 6), _text(chance, 80), "2026-10-01T00:00:00Z") for n in range(count)]


def _text(chance: random.Random, words: int) -> str:
    return "".join(_word(chance) for _ in range(words))


def _word(chance: random.Random) -> str:
    if chance.random() < 0.2:
        return f" {chance.choice(LATIN)} "
    return "".join(chance.choices(KANJI, k=chance.randint(2, 4))) + chance.choice(KANA)


def _ask(index: Index[int]) -> Callable[[], object]:
    return lambda: [index.search(query) for query in QUERIES]


def _scan(documents: Sequence[Document[int]]) -> object:
    """Without an index: each text is folded, once for all queries, and looked through for each term."""
    folded = [(document.key, fold(f"{document.title}\n{document.description}\n{document.body}")) for document in documents]
    wanted = [[term.text for term in query_terms(query)] for query in QUERIES]
    return [[key for key, text in folded if any(term in text for term in terms)] for terms in wanted]


def _told(what: str, ours: Callable[[], object], theirs: Callable[[], object], *, bar: float) -> bool:
    """Side by side, round by round: what else the machine does falls on both."""
    rounds = [(_seconds(ours), _seconds(theirs)) for _ in range(ROUNDS)]
    ratio = statistics.median(a / b for a, b in rounds)
    numbers = " / ".join(f"{statistics.median(each) * 1e3:,.2f} ms" for each in zip(*rounds, strict=True))
    print(f"{ratio:7.4f}×  (bar {bar:g})  {'' if ratio <= bar else 'MISSED  '}{what}: {numbers}", flush=True)
    return ratio <= bar


def _seconds(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


if __name__ == "__main__":
    sys.exit(main())
