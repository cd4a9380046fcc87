"""The people whom the user's log is about. Id 0 is the assistant, id 1 the user."""

from __future__ import annotations

from typing import Annotated

from fastapi import Query

from api.auth.access import Reader, Writer
from api.context import ApiContext, Context
from api.problems import NotFound
from api.routing import (
    MAX_PAGE,
    ContactPath,
    Cursor,
    IdempotencyKey,
    Limit,
    cursor_of,
    make_router,
    page_of,
    read_cursor,
    request_id,
)
from api.schemas.base import Forgotten
from api.schemas.records import (
    ContactChangeView,
    ContactFields,
    ContactGiven,
    ContactHistory,
    ContactIdsGiven,
    ContactPage,
    ContactsFilterGiven,
    ContactView,
    FoundContact,
    FoundContacts,
    MergeGiven,
    WordsGiven,
)
from memory.model.contact import Contact
from memory.model.scope import Scope

router = make_router("contacts")


@router.get("/contacts", summary="List contacts")
async def list_contacts(context: Context, acting: Reader, limit: Limit = 50, cursor: Cursor = None) -> ContactPage:
    """By id."""
    found = await context.memory.contacts.filter(acting.scope, limit=limit + 1, after=_after(cursor))
    return _page(found, limit)


@router.post("/contacts/filter", summary="List contacts by their fields")
async def filter_contacts(context: Context, acting: Reader, wanted: ContactsFilterGiven) -> ContactPage:
    """Those whose fields are exactly these; null: not known."""
    where = wanted.where.model_dump(include=wanted.where.model_fields_set)
    found = await context.memory.contacts.filter(acting.scope, limit=wanted.limit + 1, after=_after(wanted.cursor), **where)
    return _page(found, wanted.limit)


def _after(cursor: str | None) -> int | None:
    return None if cursor is None else read_cursor(cursor, "contacts", int)[0]


def _page(found: tuple[Contact, ...], limit: int) -> ContactPage:
    page, last = page_of(found, limit)
    return ContactPage(
        items=[ContactView.of(contact) for contact in page],
        next=None if last is None else cursor_of("contacts", last.contact_id),
    )


@router.post("/contacts/search", summary="Search contacts")
async def search_contacts(context: Context, acting: Reader, wanted: WordsGiven) -> FoundContacts:
    """Contacts that fit a description, best first; an exact address, number or sender id comes first."""
    found = await context.memory.contacts.search(acting.scope, wanted.query, limit=wanted.limit)
    return FoundContacts(items=[FoundContact(contact=ContactView.of(one.contact), score=one.score) for one in found])


@router.post("/contacts", summary="Add a contact")
async def add_contact(context: Context, acting: Writer, given: ContactGiven, key: IdempotencyKey = None) -> ContactView:
    """Where an address, a number or a sender id belongs to a contact already, that one gets what it does not have yet."""
    fields = given.model_dump(include=given.model_fields_set - {"aliases"}, exclude_none=True)
    contact = await context.memory.contacts.add(
        acting.scope, aliases=given.aliases, request_id=request_id(key, "add", given), **fields
    )
    return ContactView.of(contact)


@router.post("/contacts/forget", summary="Forget contacts")
async def forget_contacts(context: Context, acting: Writer, given: ContactIdsGiven) -> Forgotten:
    """Remove contacts with their texts, sender ids, histories and sources for good. Their tasks stay.

    The contacts 0 (the assistant) and 1 (the user) are always there: correct them instead.
    """
    return Forgotten(forgotten=await context.memory.contacts.forget(acting.scope, given.ids))


@router.get("/contacts/{contact_id}", summary="Read a contact")
async def get_contact(context: Context, acting: Reader, contact_id: ContactPath) -> ContactView:
    """With the quotes that it rests on. One that was merged away gives the one that it is now."""
    found = await context.memory.contacts.get(acting.scope, contact_id)
    if found is None:
        raise NotFound("there is no such contact")
    return ContactView.of(found, await context.memory.contacts.sources(acting.scope, found.contact_id))


@router.patch("/contacts/{contact_id}", summary="Correct a contact")
async def change_contact(
    context: Context, acting: Writer, contact_id: ContactPath, given: ContactFields, key: IdempotencyKey = None
) -> ContactView:
    """Set fields; null empties one. Each change is in the history."""
    await _there(context, acting.scope, contact_id)
    fields = given.model_dump(include=given.model_fields_set)
    return ContactView.of(
        await context.memory.contacts.update(
            acting.scope, contact_id, request_id=request_id(key, "change", contact_id, given), **fields
        )
    )


@router.post("/contacts/{contact_id}/merge", summary="Merge two contacts")
async def merge_contacts(
    context: Context, acting: Writer, contact_id: ContactPath, given: MergeGiven, key: IdempotencyKey = None
) -> ContactView:
    """Make the two one: empty fields are filled; sender ids, tasks and both histories go to the one that is kept."""
    await _there(context, acting.scope, contact_id)
    return ContactView.of(
        await context.memory.contacts.merge(
            acting.scope, contact_id, given.drop, request_id=request_id(key, "merge", contact_id, given)
        )
    )


@router.get("/contacts/{contact_id}/history", summary="Read the history of a contact")
async def get_contact_history(
    context: Context,
    acting: Reader,
    contact_id: ContactPath,
    limit: Annotated[int, Query(ge=1, le=MAX_PAGE, description="the newest changes")] = 200,
) -> ContactHistory:
    """Changes of its fields, oldest first, with those of what was merged into it."""
    await _there(context, acting.scope, contact_id)
    found = await context.memory.contacts.history(acting.scope, contact_id, limit=limit)
    return ContactHistory(items=[ContactChangeView.of(change) for change in found])


@router.delete("/contacts/{contact_id}", summary="Forget a contact")
async def forget_contact(context: Context, acting: Writer, contact_id: ContactPath) -> Forgotten:
    """Remove it with its texts, sender ids, history and sources for good. One that is gone already counts as 0."""
    return Forgotten(forgotten=await context.memory.contacts.forget(acting.scope, contact_id))


async def _there(context: ApiContext, scope: Scope, contact_id: int) -> None:
    """Raises NotFound."""
    if await context.memory.contacts.get(scope, contact_id) is None:
        raise NotFound("there is no such contact")
