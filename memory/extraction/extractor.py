"""One unified pass over a window, and what to do when a reply is cut off, unreadable, or bad in one section."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Final

from memory.categories.spec import CategorySpec
from memory.extraction.found import Found
from memory.extraction.ground import Grounds
from memory.model.category import Category
from memory.model.errors import MalformedOutput, ModelRejected
from memory.model.event import MessageEvent
from memory.model.evidence import text_of
from memory.model.extraction_schema import Sections, looks_cut_off, read_reply, reply_schema
from memory.model.items import ContactTextItem
from memory.model.window import CategoryExtraction, Extraction, StoredEvent, Window
from memory.ports import ChatModel, ChatReply, ChatRequest, StopReason, Usage
from memory.prompts import PROMPT_VERSION, with_more_room
from memory.prompts.extraction import STAGE, Known, extraction_request

MAX_MODEL_CALLS: Final = 24
"""In one extraction: the window, more room, its halves, single categories again."""
MAX_LINES: Final = 200
"""Of one prompt; more are extracted from in parts."""
MIN_EVENTS: Final = 4
"""So few lines are not split any further."""
LONG_PROMPT_CHARS: Final = 20_000
"""A refused prompt of this length may be too long for the model: it is tried in halves."""

_TEXTS: Final = {
    Category.BIOS: "bio",
    Category.ROLLING_SUMMARIES: "rolling_summary",
    Category.RESPONSE_POLICIES: "response_policy",
}


@dataclass(frozen=True, slots=True)
class ExtractionResult:
    """``usage``: by stage (``extract``, ``extract_<category>``)."""

    extraction: Extraction
    usage: Mapping[str, Usage]


@dataclass
class _Work:
    """What has been found and spent so far."""

    specs: Sequence[CategorySpec]
    found: Found = field(default_factory=Found)
    failed: dict[Category, str] = field(default_factory=dict[Category, str])
    flags: list[str] = field(default_factory=list[str])
    usage: dict[str, Usage] = field(default_factory=dict[str, Usage])
    calls: int = 0


class _CutOff(Exception):
    """The reply did not fit, even with more room."""


class Extractor:
    """For one model.

    Args:
        model: metered by the caller.
        timeout_s: of one call.
    """

    def __init__(self, model: ChatModel, *, timeout_s: float) -> None:
        self._model = model
        self._timeout_s = timeout_s

    async def run(
        self, window: Window, events: Sequence[StoredEvent], known: Known, specs: Sequence[CategorySpec], *, now: datetime
    ) -> ExtractionResult:
        """Extract and check.

        Raises:
            MalformedOutput: nothing could be read of a reply, or a few lines alone do not fit the model's output.
            ModelRateLimited, ModelUnavailable, ModelTimedOut, ModelRejected: as the model does.
            SpendCapReached, StoreUnavailable: of a metered model.
        """
        work = _Work(specs)
        if specs and any(isinstance(one.event, MessageEvent) and not one.event.is_empty for one in events):
            await self._part(window, events, known, work, now)
        refs = known.refs()
        categories = tuple(_result(spec.category, work) for spec in specs)
        extraction = Extraction(
            window_id=window.window_id,
            attempt=window.attempt,
            prompt_version=PROMPT_VERSION,
            model=self._model.name,
            refs=refs,
            categories=categories,
            flags=tuple(dict.fromkeys(work.flags)),
        )
        return ExtractionResult(extraction, work.usage)

    async def _part(self, window: Window, events: Sequence[StoredEvent], known: Known, work: _Work, now: datetime) -> Known:
        """Extract from these lines; gives what is known after them."""
        if len(events) > MAX_LINES:
            return await self._halves(window, events, known, work, now, "long")
        specs = [spec for spec in work.specs if spec.category not in work.failed]
        if not specs:
            return known
        try:
            sections = await self._sections(specs, window, events, known, work, now)
        except _CutOff:
            return await self._halves(window, events, known, work, now, "cut_off")
        except ModelRejected:
            # The port does not tell a prompt that is too long from other refusals; a short one is not too long.
            if len(events) < 2 * MIN_EVENTS or sum(len(text_of(one)) for one in events) < LONG_PROMPT_CHARS:
                raise
            return await self._halves(window, events, known, work, now, "rejected")
        work.found.begin_part()
        grounds = Grounds(window, events, known, known.refs())
        origin = f"chunk:{window.window_id[6:]}" if window.window_id.startswith("chunk-") else f"window:{window.window_id}"
        for spec in specs:
            category = spec.category
            if category in sections.broken:
                work.failed[category] = sections.broken[category]
                continue
            kept, dropped = [], []
            if items := sections.items.get(category):
                # In a thread: texts may be long, and heartbeats have to go on.
                kept, dropped = await asyncio.to_thread(grounds.check, spec, items, origin)
            malformed = sections.dropped.get(category, [])
            work.found.add(category, kept, [*malformed, *dropped], proposed=sections.proposed.get(category, 0))
        return _after(known, work)

    async def _halves(
        self, window: Window, events: Sequence[StoredEvent], known: Known, work: _Work, now: datetime, why: str
    ) -> Known:
        if len(events) < 2 * MIN_EVENTS:
            raise MalformedOutput(f"the reply for {len(events)} events does not fit the model's output")
        work.flags.append(f"split:{why}")
        middle = len(events) // 2
        known = await self._part(window, events[:middle], known, work, now)
        # The second half is told what the first one made of the texts, so that it weaves on and undoes nothing.
        return await self._part(window, events[middle:], known, work, now)

    async def _sections(
        self,
        specs: Sequence[CategorySpec],
        window: Window,
        events: Sequence[StoredEvent],
        known: Known,
        work: _Work,
        now: datetime,
    ) -> Sections:
        sections = await self._ask(self._request(specs, window, events, known, now, STAGE), specs, work)
        for category in list(sections.broken):
            again = [spec for spec in specs if spec.category is category]
            stage = f"{STAGE}_{category.value}"
            try:
                mended = await self._ask(self._request(again, window, events, known, now, stage), again, work)
            except (MalformedOutput, ModelRejected, _CutOff):
                # The category fails by itself; the others stand.
                continue
            if category not in mended.broken:
                del sections.broken[category]
                work.flags.append(f"repaired:{category.value}")
                sections.items[category] = mended.items.get(category, [])
                sections.dropped[category] = mended.dropped.get(category, [])
                sections.proposed[category] = mended.proposed.get(category, 0)
        return sections

    def _request(
        self,
        specs: Sequence[CategorySpec],
        window: Window,
        events: Sequence[StoredEvent],
        known: Known,
        now: datetime,
        stage: str,
    ) -> ChatRequest:
        return extraction_request(
            events,
            known,
            {spec.category: spec.prompt for spec in specs},
            schema=reply_schema({spec.category: spec.item for spec in specs}),
            guidance=window.guidance,
            now=now,
            timeout_s=self._timeout_s,
            reasoning=self._model.reasoning,
            stage=stage,
        )

    async def _ask(self, request: ChatRequest, specs: Sequence[CategorySpec], work: _Work) -> Sections:
        sections = _read(await self._call(request, work), specs)
        if sections is None:
            work.flags.append("more_room")
            sections = _read(await self._call(replace(with_more_room(request), stage=request.stage), work), specs)
        if sections is None:
            raise _CutOff
        return sections

    async def _call(self, request: ChatRequest, work: _Work) -> ChatReply:
        if work.calls >= MAX_MODEL_CALLS:
            raise MalformedOutput(f"the window took {MAX_MODEL_CALLS} model calls and is not read")
        work.calls += 1
        reply = await self._model.complete(request)
        before = work.usage.get(request.stage)
        work.usage[request.stage] = reply.usage if before is None else before + reply.usage
        return reply


def _read(reply: ChatReply, specs: Sequence[CategorySpec]) -> Sections | None:
    """None: it is cut off. Of such a reply nothing is kept: what is missing cannot be told from what there was not."""
    if reply.stop is StopReason.LENGTH:
        return None
    if reply.stop is StopReason.REFUSED:
        raise ModelRejected("the model refused to extract from the window")
    try:
        return read_reply(reply.text, {spec.category: spec.item for spec in specs})
    except MalformedOutput:
        if looks_cut_off(reply.text):
            return None
        raise


def _result(category: Category, work: _Work) -> CategoryExtraction:
    """Of a category that failed in one part nothing is taken: the window runs again for it, as a whole."""
    failed = work.failed.get(category)
    return CategoryExtraction(
        category=category,
        items=() if failed else tuple(one.model_dump(mode="json") for one in work.found.kept.get(category, ())),
        dropped=tuple(work.found.dropped.get(category, ())),
        proposed=work.found.proposed.get(category, 0),
        failed=failed,
    )


def _after(known: Known, work: _Work) -> Known:
    """What is known, with the texts that were extracted so far in place of the old ones."""
    texts: dict[str, dict[str, str]] = {}
    for category, name in _TEXTS.items():
        for one in work.found.kept.get(category, ()):
            if isinstance(one.item, ContactTextItem):
                texts.setdefault(one.item.contact, {})[name] = one.item.text
    contacts = tuple(
        contact.model_copy(update=texts[ref]) if (ref := f"c{contact.contact_id}") in texts else contact
        for contact in known.contacts
    )
    return Known(contacts, known.tasks, known.facts, known.names)
