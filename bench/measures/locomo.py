"""How well ``search_events`` finds what a question asks about, on conversations that are not part of the repository.

Each conversation is one user's log: its two speakers are contacts, its lines messages, its sessions the times at which they were
said. All of it goes through the product's own stores (SQL and the embedded vector engine) and its public search. A question counts
by the share of its evidence lines among the first ten. Plain BM25 and an ordinary hybrid are measured in the same run.
"""

from __future__ import annotations

import json
import math
import re
import tempfile
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

import numpy as np

from bench.results import BenchError, Reach, Row, skipped
from memory.model.errors import InvalidSettings
from memory.model.event import MessageEvent
from memory.model.scope import Scope
from memory.ports import CreateContact, Embedder
from memory.retrieval import SearchIndex
from memory.settings import load_settings
from memory.stores.embedders import build_embedder
from memory.stores.migrations import migrate
from memory.stores.tables import Tables, build_tables
from memory.stores.vectors import build_vectors

DATA: Final = Path(__file__).parents[3] / "shared" / "data" / "locomo-dev.json"
CATEGORIES: Final = {1: "multi-hop", 2: "temporal", 3: "open-domain", 4: "single-hop"}
FIRST: Final = 10
BETWEEN_LINES: Final = timedelta(minutes=1)
MEASURE: Final = f"search_events, evidence recall at {FIRST}"
COMPARED: Final = "plain BM25 and an ordinary hybrid (BM25 + the same embedder, rank fusion with 60), same run"
LEAST: Final = Reach(least=0.75)
_RRF: Final = 60
_WORD: Final = re.compile(r"\w+")
_EVIDENCE: Final = re.compile(r"D:?(\d+):(\d+)")
_SESSION: Final = re.compile(r"session_(\d+)")


@dataclass(frozen=True, slots=True)
class Line:
    line_id: str
    speaker: str
    text: str
    at: datetime


@dataclass(frozen=True, slots=True)
class Question:
    text: str
    category: int
    evidence: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Dialogue:
    name: str
    lines: Sequence[Line]
    questions: Sequence[Question]


Recall = dict[str, dict[int, list[float]]]
"""Way of searching → category → share of the evidence found, by question."""


class CachedEmbedder:
    """The product's embedder; what it said of a text is kept for the run, since several ways of searching ask the same."""

    def __init__(self, inner: Embedder) -> None:
        self._inner = inner
        self._passages: dict[str, tuple[float, ...]] = {}
        self._queries: dict[str, tuple[float, ...]] = {}
        self.name, self.dimension, self.weight = inner.name, inner.dimension, inner.weight

    async def query(self, text: str) -> tuple[float, ...]:
        if text not in self._queries:
            self._queries[text] = await self._inner.query(text)
        return self._queries[text]

    async def passages(self, texts: Sequence[str]) -> Sequence[tuple[float, ...]]:
        fresh = list(dict.fromkeys(text for text in texts if text not in self._passages))
        if fresh:
            self._passages.update(zip(fresh, await self._inner.passages(fresh), strict=True))
        return [self._passages[text] for text in texts]

    async def aclose(self) -> None:
        """Whoever made the inner one closes it."""


async def measure(path: Path = DATA) -> list[Row]:
    if not _is_there(path):
        return [skipped(MEASURE, "share", COMPARED, f"{path.name} is not at {path.parent}", LEAST)]
    dialogues = read_dialogues(path)
    found: Recall = defaultdict(lambda: defaultdict(list))
    async with AsyncExitStack() as stack:
        try:
            inner = build_embedder(load_settings())
        except InvalidSettings as error:
            raise BenchError(f"the embedder cannot be used: {error}") from None
        embedder = CachedEmbedder(inner) if inner is not None else None
        if inner is not None:
            stack.push_async_callback(inner.aclose)
        for way, uses in (("lexical alone", None), ("fused", embedder)):
            if way == "fused" and uses is None:
                continue
            for dialogue in dialogues:
                await _ask_product(dialogue, way, uses, found)
        for dialogue in dialogues:
            await _ask_plain(dialogue, embedder, found)
    return rows_of(found)


def _is_there(path: Path) -> bool:
    return path.exists()


def rows_of(found: Recall) -> list[Row]:
    shares = {way: _mean([one for some in by_category.values() for one in some]) for way, by_category in found.items()}
    best = "fused" if "fused" in found else "lexical alone"
    questions = {name: len(found[best].get(number, ())) for number, name in CATEGORIES.items()}
    details: dict[str, Any] = {
        "all": shares,
        "by_category": {
            way: {name: _mean(by_category.get(number, ())) for number, name in CATEGORIES.items()}
            for way, by_category in found.items()
        },
        "questions": questions,
    }
    note = ", ".join(f"{way} {share:.3f}" for way, share in shares.items() if way != best)
    rows = [Row(MEASURE, shares[best], "share", COMPARED, LEAST, note=f"{best}; {note}", details=details)]
    for number, name in CATEGORIES.items():
        here = {way: _mean(by_category.get(number, ())) for way, by_category in found.items()}
        others = ", ".join(f"{way} {share:.3f}" for way, share in here.items() if way != best)
        rows.append(Row(f"… {name}", here[best], "share", f"{questions[name]} questions", note=others))
    return rows


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values) if values else 0.0


# ------------------------------------------------------------------------------------------------------------- the product


async def _ask_product(dialogue: Dialogue, way: str, embedder: Embedder | None, found: Recall) -> None:
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="afterturn-locomo-")))
        settings = load_settings({}, data_dir=folder, embedder="none")
        migrate(settings.sqlalchemy_url)
        tables = build_tables(settings)
        stack.push_async_callback(tables.aclose)
        index = open_index(tables, folder, embedder)
        stack.push_async_callback(index.aclose)
        scope = Scope.of("locomo", dialogue.name)
        seqs = await record(tables, scope, dialogue)
        await index.events.index(scope)
        await index.events.embed(scope)
        for question in dialogue.questions:
            hits = await index.events.search(scope, question.text, limit=FIRST, neighbours=0)
            found[way][question.category].append(_share(question, [seqs[hit.event.seq] for hit in hits]))


def open_index(tables: Tables, folder: Path, embedder: Embedder | None) -> SearchIndex:
    return SearchIndex(
        vectors=build_vectors(load_settings({}, data_dir=folder, embedder="none")),
        embedder=embedder,
        terms=tables.terms,
        ledger=tables.windows,
        facts=tables.facts,
        contacts=tables.contacts,
        guidance=tables.guidance,
        functions=tables.functions,
    )


async def record(tables: Tables, scope: Scope, dialogue: Dialogue) -> Mapping[int, str]:
    """Record the lines as messages between two contacts. Returns the line's id by the event's number."""
    now = datetime.now(UTC)
    speakers = sorted({line.speaker for line in dialogue.lines})
    senders = {speaker: f"speaker-{place}" for place, speaker in enumerate(speakers)}
    people = [
        CreateContact(effect=f"locomo-{sender}", fields={"first_name": speaker}, aliases=(sender,))
        for speaker, sender in senders.items()
    ]
    await tables.contacts.apply(scope, people, origin="manual", now=now)
    events = [
        MessageEvent(
            event_id=line.line_id,
            timestamp=line.at,
            sender_id=senders[line.speaker],
            receiver_ids=tuple(sender for speaker, sender in senders.items() if speaker != line.speaker),
            content=line.text,
        )
        for line in dialogue.lines
    ]
    for start in range(0, len(events), 500):
        await tables.log.record_events(scope, events[start : start + 500], now=now)
    last = (await tables.windows.progress(scope)).last_seq
    return {one.seq: one.event.event_id for one in await tables.windows.events(scope, 1, last)}


def _share(question: Question, line_ids: Sequence[str]) -> float:
    return sum(line_id in line_ids for line_id in question.evidence) / len(question.evidence)


# ------------------------------------------------------------------------------------------------------------- the others


async def _ask_plain(dialogue: Dialogue, embedder: Embedder | None, found: Recall) -> None:
    lines = dialogue.lines
    bm25 = PlainBm25([line.text for line in lines])
    vectors = np.zeros((0, 1))
    if embedder is not None:
        # As the product does: who says it is a part of what is embedded.
        vectors = np.asarray(await embedder.passages([f"{line.speaker}: {line.text}" for line in lines]))
    for question in dialogue.questions:
        orders = {"plain BM25": bm25.order(question.text)}
        if embedder is not None:
            cosines = vectors @ np.asarray(await embedder.query(question.text))
            orders["dense alone"] = [int(place) for place in np.argsort(-cosines, kind="stable")]
            orders["ordinary hybrid"] = _rank_fusion(orders["plain BM25"], orders["dense alone"])
        for way, order in orders.items():
            ids = [lines[place].line_id for place in order[:FIRST]]
            found[way][question.category].append(_share(question, ids))


def _rank_fusion(*orders: Sequence[int]) -> list[int]:
    scores: dict[int, float] = {}
    for order in orders:
        for rank, place in enumerate(order[:300]):
            scores[place] = scores.get(place, 0.0) + 1 / (_RRF + rank + 1)
    return sorted(scores, key=lambda place: (-scores[place], place))


class PlainBm25:
    """As in any textbook: words in small letters, k1 = 1.2, b = 0.75."""

    def __init__(self, texts: Sequence[str]) -> None:
        self._bags = [Counter(_WORD.findall(text.lower())) for text in texts]
        self._sizes = [sum(bag.values()) for bag in self._bags]
        self._usual = _mean([float(size) for size in self._sizes]) or 1.0
        self._frequencies = Counter(word for bag in self._bags for word in bag)

    def order(self, query: str) -> list[int]:
        scores = [self._score(_WORD.findall(query.lower()), place) for place in range(len(self._bags))]
        return sorted((place for place, score in enumerate(scores) if score > 0), key=lambda place: (-scores[place], place))

    def _score(self, words: Sequence[str], place: int) -> float:
        bag, score = self._bags[place], 0.0
        for word in words:
            if (count := bag.get(word, 0)) > 0:
                among = self._frequencies[word]
                rarity = math.log(1 + (len(self._bags) - among + 0.5) / (among + 0.5))
                score += rarity * count * 2.2 / (count + 1.2 * (0.25 + 0.75 * self._sizes[place] / self._usual))
        return score


# --------------------------------------------------------------------------------------------------------------- the data


def read_dialogues(path: Path) -> list[Dialogue]:
    """Raises BenchError for a file of another form."""
    try:
        return [_dialogue(one) for one in json.loads(path.read_text("utf-8"))]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise BenchError(f"{path.name} is not in the form of LoCoMo ({type(error).__name__})") from None


def _dialogue(content: Mapping[str, Any]) -> Dialogue:
    talk: Mapping[str, Any] = content["conversation"]
    lines: list[Line] = []
    for number in sorted(int(found[1]) for key in talk if (found := _SESSION.fullmatch(key))):
        began = datetime.strptime(talk[f"session_{number}_date_time"], "%I:%M %p on %d %B, %Y").replace(tzinfo=UTC)
        for place, line in enumerate(talk[f"session_{number}"]):
            caption = line.get("blip_caption")
            text = line["text"] + (f" [photo: {caption}]" if caption else "")
            lines.append(Line(line["dia_id"], line["speaker"], text, began + place * BETWEEN_LINES))
    questions: list[Question] = []
    for one in content["qa"]:
        named = " ".join(str(evidence) for evidence in one.get("evidence", ()))
        evidence = tuple(dict.fromkeys(f"D{int(session)}:{int(turn)}" for session, turn in _EVIDENCE.findall(named)))
        if evidence and one["category"] in CATEGORIES:
            questions.append(Question(one["question"], one["category"], evidence))
    return Dialogue(content["sample_id"], lines, questions)
