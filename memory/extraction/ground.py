"""From items as a model gave them to items that rest on the window: every rule that does not need a store."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from typing import Any, Final, cast

from memory.categories.spec import CategorySpec
from memory.model.category import Category
from memory.model.echo import Instructions
from memory.model.event import MessageEvent
from memory.model.evidence import (
    cited_events,
    is_asking,
    is_assent,
    is_assistants_own,
    keeps_script,
    normalised,
    sources_of,
    text_of,
)
from memory.model.grounding import Support
from memory.model.ids import short_hash
from memory.model.items import ContactItem, ContactTextItem, Dropped, DropReason, Grounded, Item, KnowledgeItem, TaskItem
from memory.model.owner import Owner
from memory.model.redaction import redact
from memory.model.sentences import sentences
from memory.model.shield import handled_by
from memory.model.transcript import clean_text, shorten_middle, stamp
from memory.model.window import StoredEvent, Window
from memory.prompts import all_prompt_texts
from memory.prompts.extraction import Known

NEIGHBOURS: Final = 3
"""Lines before a cited one that may name what it speaks of."""
SUPPORT_BYTES: Final = 64 * 1024
"""Of one text, its beginning and end: what the prompt showed, and more."""
MIN_SHARE: Final = 0.4
"""So much of a statement's telling words was said in its lines, or is known."""
MIN_TEXT_SHARE: Final = 0.34
"""Of a task and of a text about a contact, which are worded more freely."""
MIN_HEARD: Final = 0.25
"""Of the same, by others than the assistant: its memory, said back, is not taken again."""

_REF_FIELDS: Final = ("contact", "merge_with", "task", "related")
_TEXT_FIELDS: Final = ("statement", "subject", "text", "name", "description", "job_title")
_NAME_FIELDS: Final = ("first_name", "surname")
_VALUE_FIELDS: Final = ("email_address", "phone_number", "whatsapp_number")
_SAME_DIGITS: Final = 7
"""Last digits of a telephone number: the code before them is written in many ways."""
_NO_CONTENT: Final[Mapping[type[Item], frozenset[str]]] = {
    KnowledgeItem: frozenset({"confidence", "topics", "kind", "subject"}),
    TaskItem: frozenset({"tags", "priority", "description"}),
}
"""Fields that may be worded anew while the item is the same."""


@dataclass(frozen=True, slots=True)
class _Said:
    """What an item may rest on."""

    lines: tuple[str, ...]
    """Its lines and those shortly before; of a text about a contact, all."""
    everything: Support
    """These lines, what was known, names and days."""
    heard: Support
    """What others than the assistant stated, and the old texts."""
    old: tuple[str, ...] = ()
    """The text, fact or task that the item goes on with."""


@dataclass
class Grounds:
    """One reply's items against one run of lines.

    Args:
        window: whose they are.
        events: the lines that the reply cites.
        known: what the prompt said.
        refs: what its refs stand for.
    """

    window: Window
    events: Sequence[StoredEvent]
    known: Known
    refs: Mapping[str, str]
    created: dict[str, str] = field(default_factory=dict[str, str])
    """Refs of contacts that the reply creates, with who they are: the same person, however the reply counts its contacts."""
    _supports: dict[tuple[str, ...], Support] = field(default_factory=dict[tuple[str, ...], Support])

    def check(self, spec: CategorySpec, items: Sequence[Item], origin: str) -> tuple[list[Grounded[Any]], list[Dropped]]:
        """The items that hold, in their order, and those that do not with the reason.

        Contacts that are created have to be checked before what refers to them: the category comes first in a plan.
        """
        results: dict[int, Grounded[Any] | str] = {}
        for place in sorted(range(len(items)), key=lambda place: not _creates(items[place])):
            item = items[place]
            result = self._one(spec, item, origin)
            if _creates(item) and not isinstance(result, str):
                self.created.setdefault(cast(ContactItem, item).contact, _identity(item))
            results[place] = result
        kept: list[Grounded[Any]] = []
        dropped: list[Dropped] = []
        for place, item in enumerate(items):
            result = results[place]
            if isinstance(result, str):
                dropped.append(Dropped(category=spec.category, reason=result, item=shown(item)))
            else:
                kept.append(result)
        return kept, dropped

    def _one(self, spec: CategorySpec, item: Item, origin: str) -> Grounded[Any] | str:
        sources = sources_of(item, self.events, origin=origin)
        if isinstance(sources, DropReason):
            return sources
        cited = cited_events(item, self.events)
        off = self.window.spaces_off.get(spec.category, ())
        if any(stored.space_id in off for stored in cited):
            return DropReason.CATEGORY_OFF
        if spec.user_evidence and all(map(is_assistants_own, cited)):
            return DropReason.ASSISTANT_ONLY
        if not self._refs_hold(item):
            return DropReason.UNKNOWN_REF
        texts, names, values = texts_of(item), _strings(item, _NAME_FIELDS), _strings(item, _VALUE_FIELDS)
        if any(redact(text).kinds for text in texts):
            return DropReason.ROUTED_ELSEWHERE
        if handled_by([*texts, *names], self.events, spec.shielded_by, values=values) is not None:
            return DropReason.ALREADY_HANDLED
        said = self._said(item, cited, off)
        if not keeps_script(_told(item), [source.quote for source in sources], known=" ".join(said.old)):
            return DropReason.TRANSLATED
        if (reason := self._unsaid(spec, item, said, cited)) is not None:
            return reason
        if spec.check is not None and (reason := spec.check(item, cited)) is not None:
            return reason
        return Grounded(key=self._key(spec.category, item), item=item, sources=sources)

    def _unsaid(self, spec: CategorySpec, item: Item, said: _Said, cited: Sequence[StoredEvent]) -> DropReason | None:
        """Whether the item says more than its lines and what was known."""
        texts = texts_of(item)
        free = isinstance(item, ContactTextItem)
        if any(said.everything.unknown_terms(text, free=free) for text in texts):
            return DropReason.UNGROUNDED
        if any(map(said.everything.unknown_names, _strings(item, _NAME_FIELDS))):
            return DropReason.UNGROUNDED
        if not all(_was_said(value, [*said.lines, *self._people, *said.old]) for value in _strings(item, _VALUE_FIELDS)):
            return DropReason.UNGROUNDED
        whole = "\n".join(texts)
        least = MIN_SHARE if isinstance(item, KnowledgeItem) else MIN_TEXT_SHARE
        if said.everything.share(whole) < least or _is_prompt_text(texts, said):
            return DropReason.UNGROUNDED
        if spec.user_evidence and whole and said.heard.share(whole) < MIN_HEARD:
            numbers = {number for number, stored in enumerate(self.events, 1) if stored in cited and not is_assistants_own(stored)}
            if not any(is_assent(evidence.quote) for evidence in item.evidence if evidence.event in numbers):
                return DropReason.ASSISTANT_ONLY
        return None

    def _refs_hold(self, item: Item) -> bool:
        if isinstance(item, ContactItem):
            if item.action == "create" and item.contact.startswith("new"):
                return True
            if item.action == "merge" and item.merge_with is None:
                return False
        for name in _REF_FIELDS:
            ref = getattr(item, name, None)
            if ref is None or (isinstance(item, KnowledgeItem) and item.relation == "new"):
                continue
            if ref not in self.refs and ref not in self.created:
                return False
        return True

    def _said(self, item: Item, cited: Sequence[StoredEvent], off: Sequence[str]) -> _Said:
        """Of a text about a contact, the whole window; else the cited lines and those shortly before."""
        if isinstance(item, ContactTextItem):
            near = [stored for stored in self.events if stored.space_id not in off]
        else:
            places = {stored.seq: place for place, stored in enumerate(self.events)}
            wanted = {place for stored in cited for place in range(max(0, places[stored.seq] - NEIGHBOURS), places[stored.seq] + 1)}
            near = [self.events[place] for place in sorted(wanted) if self.events[place].space_id not in off]
        lines = tuple(shorten_middle(clean_text(text_of(stored)), SUPPORT_BYTES) for stored in near)
        # What is to be done is often asked for; what is so is not stated by a question.
        questions = isinstance(item, TaskItem)
        heard = tuple(
            sentence
            for stored, line in zip(near, lines, strict=True)
            if not is_assistants_own(stored)
            for sentence in sentences(line)
            if questions or not is_asking(sentence)
        )
        days = tuple(dict.fromkeys(stamp(stored.event.timestamp)[:10] for stored in cited))
        old = tuple(text for text in self._old_texts(item) if text)
        before = self._support(old)
        return _Said(
            lines=lines,
            everything=self._support(lines) | self._support(self._people) | self._support(days) | before,
            heard=self._support(heard) | before,
            old=old,
        )

    @cached_property
    def _people(self) -> tuple[str, ...]:
        """Names and ids of who is known and of who takes part."""
        people = [part for contact in self.known.contacts for part in (contact.name, contact.job_title, *contact.aliases) if part]
        people += [person for stored in self.events for person in _people(stored)]
        return tuple(dict.fromkeys(people))

    def _support(self, texts: tuple[str, ...]) -> Support:
        """Read once, however many items rest on the same."""
        if texts not in self._supports:
            self._supports[texts] = Support(texts)
        return self._supports[texts]

    def _old_texts(self, item: Item) -> list[str | None]:
        if isinstance(item, KnowledgeItem) and item.related:
            wanted, own = self.refs.get(item.related), Owner.user(self.window.scope).key
            # What another member of a team wrote vouches for nothing that is stored as the user's.
            known = (fact for fact in self.known.facts if fact.fact_id == wanted and fact.owner == own)
            return [part for fact in known for part in (fact.statement, fact.subject)]
        if isinstance(item, TaskItem) and item.task:
            wanted = self.refs.get(item.task)
            return [part for task in self.known.tasks if task.task_id == wanted for part in (task.name, task.description)]
        if isinstance(item, ContactTextItem):
            wanted = self.refs.get(item.contact)
            return [
                text
                for contact in self.known.contacts
                if str(contact.contact_id) == wanted
                for text in (contact.bio, contact.rolling_summary, contact.response_policy, *_values_of(contact))
            ]
        return []

    def _key(self, category: Category, item: Item) -> str:
        """Of user, window and content; refs by what they stand for, so that another numbering gives the same key."""
        left_out = {"evidence", *_NO_CONTENT.get(type(item), ())}
        if isinstance(item, TaskItem) and item.action != "create":
            left_out = {"evidence", "tags"}
        if _creates(item):
            left_out.add("contact")
        content = {
            name: self._meant(value) if name in _REF_FIELDS and isinstance(value, str) else _plain(value)
            for name, value in item.model_dump(exclude=left_out, exclude_none=True).items()
        }
        scope = self.window.scope
        canonical = json.dumps(content, sort_keys=True, ensure_ascii=True, default=str)
        return short_hash(scope.tenant, scope.user, self.window.window_id, category.value, canonical)

    def _meant(self, ref: str) -> str:
        return self.refs.get(ref) or self.created.get(ref) or ref


def texts_of(item: Item) -> list[str]:
    """What an item says in words, beside names."""
    return _strings(item, _TEXT_FIELDS)


def shown(item: Item) -> dict[str, Any]:
    """An item for the person who looks, bounded and without secrets."""
    return {
        name: value if isinstance(value, int | float | bool) else redact(str(value)[:8000]).text[:500]
        for name, value in item.model_dump(mode="json", exclude_none=True).items()
    }


def _strings(item: Item, names: Sequence[str]) -> list[str]:
    return [value for name in names if isinstance(value := getattr(item, name, None), str) and value.strip()]


def _told(item: Item) -> str:
    """The part that has to be in the language of its source."""
    return " ".join(_strings(item, ("statement", "text", "name", "description")))


def _creates(item: Item) -> bool:
    return isinstance(item, ContactItem) and item.action == "create"


def _identity(item: Item) -> str:
    return "new:" + "|".join(normalised(value) for value in _strings(item, (*_NAME_FIELDS, *_VALUE_FIELDS)))


def _people(stored: StoredEvent) -> list[str]:
    event = stored.event
    return [event.sender_id, *event.receiver_ids] if isinstance(event, MessageEvent) else []


def _values_of(contact: Any) -> list[str | None]:
    return [getattr(contact, name) for name in _VALUE_FIELDS]


def _was_said(value: str, texts: Sequence[str]) -> bool:
    """An address as it is; of a telephone number the last digits, whatever stands between them."""
    if "@" in value:
        return any(normalised(value) in normalised(text) for text in texts)
    digits = "".join(filter(str.isdigit, normalised(value)))[-_SAME_DIGITS:]
    return bool(digits) and any(digits in "".join(filter(str.isdigit, normalised(text))) for text in texts)


@cache
def _instructions() -> Instructions:
    return Instructions(all_prompt_texts())


def _is_prompt_text(texts: Sequence[str], said: _Said) -> bool:
    """Whether a sentence of the item is one of the prompt's, and nobody said just that."""
    for sentence in (one for text in texts for one in sentences(text)):
        if _instructions().hold(sentence) and not any(normalised(sentence) in normalised(line) for line in said.lines):
            return True
    return False


def _plain(value: Any) -> Any:
    if isinstance(value, str):
        return normalised(value)
    if isinstance(value, list | tuple):
        return [_plain(one) for one in cast(Sequence[Any], value)]
    return value
