"""What a user had forgotten stays forgotten, also when an old window is read again.

A deleted item leaves no text. What it leaves, in the table of effects, is enough to recognise it in what a rerun extracts: for each
message that it rested on, hashes of the telling words of its quotes; for a contact also its sender ids and addresses as hashes,
with the time until which they are not taken up again. An item is forgotten when all that it rests on was; said anew, in another
message, it is remembered anew.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from sqlalchemy import bindparam, or_, select

from memory.model.contact import SYSTEM_CONTACTS, UNIQUE_FIELDS
from memory.model.contact_rules import EDITABLE_FIELDS, email_key
from memory.model.fact import Source
from memory.model.ids import short_hash
from memory.model.words import key_words
from memory.ports import CreateContact
from memory.stores.tables.provenance import ItemKind, delete_sources, sources_of
from memory.stores.tables.rows_records import CONTACT_ALIASES, CONTACT_CHANGES, CONTACTS, EFFECTS, TASKS
from memory.stores.tables.scoping import Prepared, Records, batches

GONE: Final = -1
"""``merged_into`` of a contact that was forgotten and waits for its vector to go."""
MAX_QUOTES: Final = 40
"""Of one message."""
MAX_WORDS: Final = 200
"""Of one quote."""
SAME_WORDS: Final = 0.6
"""A quote that shares so many of the words of a shorter one is about the same."""
_SENDERS: Final = "forgotten/sender"

_NOTED = Prepared(
    select(EFFECTS.c.effect_key, EFFECTS.c.result, EFFECTS.c.applied_at).where(
        EFFECTS.c.store == bindparam("b_store"), EFFECTS.c.effect_key.in_(bindparam("b_keys", expanding=True))
    )
)


def forget_sources(records: Records, kind: ItemKind, item_ids: Collection[str], *, now: datetime) -> None:
    """Delete the quotes of items that are deleted, and note what they rested on. The caller holds the owner's lock."""
    resting = [source for sources in sources_of(records, kind, item_ids).values() for source in sources]
    new: dict[str, list[list[str]]] = {}
    for source in resting:
        if source.event_id is not None:
            new.setdefault(_event_key(source.event_id), []).append(_marks(source.event_id, source.quote))
    store = f"forgotten/{kind}"
    known = {key: row.result["quotes"] for key, row in _noted(records, store, new).items()}
    for key, quotes in new.items():
        merged = [*(one for one in known.get(key, ()) if one not in quotes), *quotes]
        unique = [list(one) for one in dict.fromkeys(map(tuple, merged))][-MAX_QUOTES:]
        _note(records, store, key, {"quotes": unique}, is_new=key not in known, now=now)
    delete_sources(records, kind, item_ids)


def is_forgotten(records: Records, kind: ItemKind, sources: Sequence[Source]) -> bool:
    """Whether all that an item rests on is of messages whose words on the matter were forgotten."""
    ids = [source.event_id for source in sources]
    if not sources or None in ids:
        return False
    noted = _noted(records, f"forgotten/{kind}", {_event_key(event_id) for event_id in ids if event_id is not None})
    return bool(noted) and all(_is_noted(source, noted) for source in sources)


def _is_noted(source: Source, noted: Mapping[str, Any]) -> bool:
    assert source.event_id is not None  # noqa: S101
    row = noted.get(_event_key(source.event_id))
    marks = set(_marks(source.event_id, source.quote))
    return row is not None and any(_is_same(marks, set(quote)) for quote in row.result["quotes"])


def _is_same(one: set[str], other: set[str]) -> bool:
    shorter = min(len(one), len(other))
    return one == other if not shorter else len(one & other) >= SAME_WORDS * shorter


# ---------------------------------------------------------------------------------------------------------------- contacts


def forget_contacts(records: Records, contact_ids: Collection[int], revised: Mapping[str, Any], *, now: datetime) -> int:
    """Contacts with all that was merged into them; those of the system stay. The caller holds the owner's lock.

    Args:
        revised: what an update gives a row so that its vector goes.

    Returns how many contacts there were; what was merged into one does not count.
    """
    there: dict[int, Any] = {}
    for some in batches(sorted(set(contact_ids) - SYSTEM_CONTACTS)):
        wanted = select(CONTACTS).where(CONTACTS.c.contact_id.in_(some), CONTACTS.c.merged_into.is_(None), ~CONTACTS.c.is_system)
        there.update((row.contact_id, row) for row in records.rows(wanted))
    blank = {**dict.fromkeys(EDITABLE_FIELDS), "email_key": None, "should_respond": True, "merged_into": GONE, "updated_at": now}
    for some in batches(sorted(there)):
        aliases = [row.alias for row in records.rows(select(CONTACT_ALIASES.c.alias).where(CONTACT_ALIASES.c.contact_id.in_(some)))]
        addresses = [value for key in some for name in UNIQUE_FIELDS if (value := getattr(there[key], name)) is not None]
        _forget_senders(records, {_sender_key(sender) for sender in (*aliases, *addresses)}, now=now)
        records.delete(CONTACT_ALIASES, CONTACT_ALIASES.c.contact_id.in_(some))
        records.delete(CONTACT_CHANGES, CONTACT_CHANGES.c.contact_id.in_(some))
        records.update(TASKS, TASKS.c.contact_id.in_(some), values={"contact_id": None, "updated_at": now})
        mine = or_(CONTACTS.c.contact_id.in_(some), CONTACTS.c.merged_into.in_(some))
        records.update(CONTACTS, mine, values={**blank, **revised})
    forget_sources(records, "contact", {str(contact_id) for contact_id in there}, now=now)
    return len(there)


def is_forgotten_contact(records: Records, change: CreateContact) -> bool:
    """Whether a new contact is one that was forgotten after it had last been seen or spoken of."""
    if change.sources and is_forgotten(records, "contact", change.sources):
        return True
    moments = [source.said_at for source in change.sources if source.said_at is not None]
    seen_at = max([*moments, *([change.seen_at] if change.seen_at is not None else [])], default=None)
    if seen_at is None:
        return False
    senders = [*change.aliases, *(value for name in UNIQUE_FIELDS if (value := change.fields.get(name)) is not None)]
    return any(row.applied_at >= seen_at for row in _noted(records, _SENDERS, {_sender_key(one) for one in senders}).values())


def _forget_senders(records: Records, keys: Collection[str], *, now: datetime) -> None:
    known = _noted(records, _SENDERS, keys)
    for key in sorted(keys):
        _note(records, _SENDERS, key, {}, is_new=key not in known, now=now)


# ------------------------------------------------------------------------------------------------------------------- parts


def _noted(records: Records, store: str, keys: Iterable[str]) -> dict[str, Any]:
    return {
        row.effect_key: row for some in batches(sorted(keys)) for row in records.rows(_NOTED, {"b_store": store, "b_keys": some})
    }


def _note(records: Records, store: str, key: str, value: Mapping[str, Any], *, is_new: bool, now: datetime) -> None:
    if is_new:
        records.insert(EFFECTS, [{"store": store, "effect_key": key, "result": value, "applied_at": now}])
    else:
        here = (EFFECTS.c.store == store, EFFECTS.c.effect_key == key)
        records.update(EFFECTS, *here, values={"result": value, "applied_at": now})


def _event_key(event_id: str) -> str:
    return short_hash("event", event_id)


def _sender_key(sender: str) -> str:
    return short_hash("sender", email_key(sender))


def _marks(event_id: str, quote: str) -> list[str]:
    """Hashes of the telling words of a quote, of use with this message only."""
    return sorted({short_hash(event_id, word)[:8] for word in sorted(key_words(quote))[:MAX_WORDS]})
