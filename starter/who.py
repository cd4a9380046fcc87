"""Users as the outside world has them, and the checks of arguments that the client's parts share."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime
from enum import StrEnum
from typing import Final, TypeVar

from memory.model.errors import InvalidInput
from memory.model.scope import Scope

Who = Scope | tuple[str, str]
"""A user: ``(tenant id, user id)`` as the outside world has them, or a Scope."""

MAX_PAGE: Final = 1_000
"""Rows of one answer."""
MAX_SEARCH: Final = 100
MAX_QUERY_CHARS: Final = 20_000
MAX_IDS: Final = 1_000
"""In one call."""

Word = TypeVar("Word", bound=StrEnum)


def scope_of(who: Who) -> Scope:
    """Raises InvalidInput."""
    if isinstance(who, Scope):
        return who
    if not isinstance(who, tuple) or len(who) != 2:  # pyright: ignore[reportUnnecessaryIsInstance, reportUnnecessaryComparison]
        raise InvalidInput("a user is (tenant id, user id) or a Scope")
    return Scope.of(*who)


def checked_query(query: str) -> str:
    """Raises InvalidInput for what is no text, blank, or longer than 20,000 characters."""
    if not isinstance(query, str):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise InvalidInput(f"a query is text, not {type(query).__name__}")
    if not query.strip():
        raise InvalidInput("the query is empty")
    if len(query) > MAX_QUERY_CHARS:
        raise InvalidInput(f"the query has {len(query)} characters; at most {MAX_QUERY_CHARS} are accepted")
    return query


def checked_limit(limit: int, *, most: int = MAX_PAGE) -> int:
    if isinstance(limit, bool) or not isinstance(limit, int) or not 1 <= limit <= most:  # pyright: ignore[reportUnnecessaryIsInstance]
        raise InvalidInput(f"the limit must be 1 to {most}")
    return limit


def checked_moment(moment: datetime | None, what: str) -> datetime | None:
    """Raises InvalidInput for a time without a zone."""
    if moment is not None and (not isinstance(moment, datetime) or moment.utcoffset() is None):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise InvalidInput(f"{what} must be a datetime with a time zone")
    return moment


def words_of(kind: type[Word], given: Collection[Word | str] | Word | str | None, what: str) -> frozenset[Word] | None:
    """Enum members from members or their values; None stays None. Raises InvalidInput that names those there are."""
    if given is None:
        return None
    values: Collection[Word | str] = [given] if isinstance(given, str) else given
    found: set[Word] = set()
    for value in values:
        try:
            found.add(kind(value))
        except ValueError:
            raise InvalidInput(f"{ascii(value)[:40]} is no {what}; there are {', '.join(kind)}") from None
    if not found:
        raise InvalidInput(f"name at least one {what}, or leave them out")
    return frozenset(found)


def ids_of(ids: Collection[str] | str, what: str) -> list[str]:
    """Distinct ids in order. Raises InvalidInput for what is none, or for more than 1,000."""
    given = [ids] if isinstance(ids, str) else list(ids)
    if len(given) > MAX_IDS:
        raise InvalidInput(f"{len(given)} {what}s in one call; at most {MAX_IDS} are accepted")
    if not all(isinstance(one, str) and one for one in given):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise InvalidInput(f"a {what} is a text that is not empty")
    return list(dict.fromkeys(given))
