"""What the routes have in common: how a request is read, how a list is walked, the parameters that many of them take."""

from __future__ import annotations

import json
import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable, Coroutine, Sequence
from datetime import UTC, datetime
from typing import Annotated, Any, Final, NoReturn, TypeVar
from urllib.parse import unquote_to_bytes

from fastapi import APIRouter, Header, Path, Query, Request, Response
from fastapi.routing import APIRoute
from pydantic import AfterValidator, AwareDatetime, BaseModel, Field
from python_multipart.multipart import parse_options_header
from starlette.requests import ClientDisconnect

from api.answers import Json
from api.auth.access import authenticated
from api.context import context_of
from api.problems import ApiError
from memory.model.errors import InvalidInput
from memory.model.ids import body_hash
from memory.ports import Position
from starter.who import MAX_SEARCH

MAX_PAGE: Final = 500
MAX_DEPTH: Final = 64
"""Of nested lists and objects in a body."""
MAX_NUMBER: Final = 2**53 - 1
"""What every client can read from JSON, and every store can hold."""
_BAD_ESCAPE = re.compile(rb"%(?![0-9A-Fa-f]{2})")
_ONCE: Final = ("Content-Type", "Content-Encoding", "Idempotency-Key", "If-Match", "Last-Event-ID")
_AS_IT_IS: Final = {"Accept-Encoding": "identity"}

Item = TypeVar("Item")

# ------------------------------------------------------------------------------------------------------------------ reading


class StrictRequest(Request):
    """A request whose body was read as JSON already."""

    parsed: Any = None

    async def json(self) -> Any:
        return self.parsed


def parse_json(data: bytes) -> Any:
    """Raises ApiError (400); what was sent is not told back."""
    try:
        parsed = json.loads(data.decode("utf-8-sig"), parse_constant=_no_number)
    except UnicodeDecodeError as error:
        raise ApiError(400, "invalid-json", f"the body is not valid UTF-8 at byte {error.start}") from None
    except json.JSONDecodeError as error:
        raise ApiError(400, "invalid-json", f"the body is not valid JSON at character {error.pos}: {error.msg}") from None
    except (ValueError, RecursionError):
        raise ApiError(400, "invalid-json", "the body holds a number that is too long, or is nested too deeply") from None
    if _is_deeper(parsed, MAX_DEPTH):
        raise ApiError(400, "invalid-json", f"the body is nested more than {MAX_DEPTH} levels deep")
    return parsed


def _no_number(name: str) -> NoReturn:
    raise ApiError(400, "invalid-json", f"the body holds {name}, which is not JSON")


def _is_deeper(value: Any, most: int) -> bool:
    level: list[Any] = [value]
    for _ in range(most + 1):
        level = [
            inner
            for one in level
            if isinstance(one, dict | list)
            for inner in (one.values() if isinstance(one, dict) else one)  # pyright: ignore[reportUnknownVariableType]
            if isinstance(inner, dict | list)
        ]
        if not level:
            return False
    return True


class StrictRoute(APIRoute):
    """Reads bodies as RFC 8259 has JSON (no NaN, no endless nesting), and refuses an address that could be read in two ways."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()
        takes_json = self.body_field is not None

        async def strict(request: Request) -> Response:
            _check_escapes(request)
            _check_headers(request)
            if takes_json:
                # Who asks comes before what they say: nothing is read from a stranger.
                await authenticated(request, context_of(request))
                request = await _read(request)
            return await handle(request)

        return strict


async def _read(request: Request) -> Request:
    strict = StrictRequest(request.scope, request.receive)
    try:
        body = await strict.body()
    except ClientDisconnect:
        raise ApiError(400, "incomplete", "the body did not arrive as a whole") from None
    if body:
        kind = media_type(request)
        if kind != "application/json" and not (kind.startswith("application/") and kind.endswith("+json")):
            raise ApiError(415, "unsupported-media-type", "send the body as application/json")
        strict.parsed = parse_json(body)
    return strict


def _check_escapes(request: Request) -> None:
    """Servers make U+FFFD of what is no UTF-8: two different ids would be one."""
    for raw in (request.scope.get("raw_path", b""), request.scope["query_string"]):
        if b"%" in raw:
            try:
                whole = _BAD_ESCAPE.search(raw) is None and bool(unquote_to_bytes(raw).decode() or True)
            except UnicodeDecodeError:
                whole = False
            if not whole:
                raise ApiError(400, "invalid-address", "the address is not percent-encoded UTF-8")


def _check_headers(request: Request) -> None:
    """What two programs on the way could understand differently is refused, and so is a body that would have to be decoded first:
    its bounds are those of what is sent."""
    for name in _ONCE:
        if len(request.headers.getlist(name)) > 1:
            raise ApiError(400, "invalid-header", f"send the header {name} once")
    headers = request.headers
    if headers.get("content-length", "0") == "0" and "transfer-encoding" not in headers:
        return
    if headers.get("content-encoding", "identity").strip().lower() not in ("", "identity"):
        raise ApiError(415, "unsupported-media-type", "send the body as it is, without a Content-Encoding", headers=_AS_IT_IS)
    charset = parse_options_header(headers.get("content-type"))[1].get(b"charset", b"utf-8").decode("latin-1").lower()
    if charset not in ("utf-8", "utf8", "us-ascii"):
        raise ApiError(415, "unsupported-media-type", "send the body as UTF-8")


def media_type(request: Request) -> str:
    """Of the body, in lower case, without parameters; empty when it is not told."""
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()


def make_router(tag: str) -> APIRouter:
    """For the routes of one thing."""
    return APIRouter(tags=[tag], route_class=StrictRoute, default_response_class=Json)


# --------------------------------------------------------------------------------------------------------------- parameters


def _in_utc(moment: datetime) -> datetime:
    try:
        moment = moment.astimezone(UTC)
    except OverflowError:
        raise ValueError("there is no such time in UTC") from None
    if moment.year < 1900:
        raise ValueError("times before 1900 are not kept")
    return moment


Moment = Annotated[AwareDatetime, AfterValidator(_in_utc)]
"""A time with a zone, from 1900 on; in UTC."""

Id = Annotated[str, Field(min_length=1, max_length=4096, examples=["user_123"])]
"""An id from outside: anything may be in it."""

ItemId = Annotated[str, Field(pattern=r"^[A-Za-z0-9_.:=@-]{1,200}$")]
"""An id that this program made."""

ContactId = Annotated[int, Field(ge=0, le=MAX_NUMBER)]

ItemPath = Annotated[str, Path(pattern=r"^[A-Za-z0-9_.:=@-]{1,200}$", description="as in the list")]
ContactPath = Annotated[int, Path(ge=0, le=MAX_NUMBER, description="0 is the assistant, 1 is the user")]

Space = Annotated[str, Query(min_length=1, max_length=4096, description="the space whose settings count", examples=["default"])]
Limit = Annotated[int, Query(ge=1, le=MAX_PAGE, description="items of one answer")]
Cursor = Annotated[str | None, Query(max_length=2_000, description="`next` of the answer before; says where the list goes on")]
Team = Annotated[
    str | None,
    Query(min_length=1, max_length=4096, description="of this team of the user's; without it, the user's own"),
]
Best = Annotated[int, Field(ge=1, le=MAX_SEARCH, description="hits of one answer")]
Words = Annotated[str, Field(min_length=1, max_length=20_000, description="any text, any language")]

IdempotencyKey = Annotated[
    str | None,
    Header(
        alias="Idempotency-Key",
        min_length=1,
        max_length=255,
        description="makes a repeated call with the same body the same call, so that a caller who got no answer may call again",
        examples=["7f0c0c5e-save-1"],
    ),
]


def request_id(key: str | None, *asked: str | int | BaseModel) -> str | None:
    """The key, bound to what is asked for: another body under the same key must not get the answer of the first."""
    if key is None:
        return None
    told = [one.model_dump(mode="json", exclude_unset=True) if isinstance(one, BaseModel) else one for one in asked]
    return f"{key}:{body_hash(json.dumps(told, sort_keys=True))}"


# --------------------------------------------------------------------------------------------------------------------- lists


def cursor_of(kind: str, *values: str | int | datetime) -> str:
    """Opaque to callers: where a list of this kind goes on."""
    told = [kind, *(value.isoformat() if isinstance(value, datetime) else value for value in values)]
    return urlsafe_b64encode(json.dumps(told, separators=(",", ":")).encode()).decode().rstrip("=")


def read_cursor(cursor: str, kind: str, *types: type) -> list[Any]:
    """The values of :func:`cursor_of`; ``types``: what they are. Raises InvalidInput for what it did not make."""
    try:
        found: Any = json.loads(urlsafe_b64decode(cursor.encode("ascii") + b"=" * (-len(cursor) % 4)))
        if not isinstance(found, list) or len(found) != len(types) + 1 or found[0] != kind:  # pyright: ignore[reportUnknownArgumentType]
            raise ValueError
        return [_cursor_value(value, wanted) for value, wanted in zip(found[1:], types, strict=True)]  # pyright: ignore[reportUnknownArgumentType,reportUnknownVariableType]
    except (ValueError, RecursionError):
        raise InvalidInput("the cursor is not one of this list; begin without one") from None


def _cursor_value(value: Any, wanted: type) -> Any:
    if wanted is datetime and type(value) is str:
        moment = datetime.fromisoformat(value)
        if moment.tzinfo is None:
            raise ValueError
        return _in_utc(moment)
    if type(value) is not wanted or (wanted is int and not 0 <= value <= MAX_NUMBER):
        raise ValueError
    if isinstance(value, str) and b"\x00" in value.encode():  # what is no Unicode is a ValueError
        raise ValueError
    return value


def position_of(cursor: str | None, kind: str) -> Position | None:
    """Raises InvalidInput."""
    if cursor is None:
        return None
    created_at, item_id = read_cursor(cursor, kind, datetime, str)
    return Position(created_at, item_id)


def position_cursor(kind: str, created_at: datetime, item_id: str) -> str:
    return cursor_of(kind, created_at, item_id)


def page_of(found: Sequence[Item], limit: int) -> tuple[list[Item], Item | None]:
    """The page, and its last item where more follow; ``found`` has one more than ``limit`` then."""
    page = list(found[:limit])
    return page, page[-1] if len(found) > limit else None
