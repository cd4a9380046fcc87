"""The user's profile: read it, save it, its history, roll-back. Reading never creates anything.

A save names the version that was read (``If-Match``), so nothing is overwritten that its writer has not seen.
"""

from __future__ import annotations

import re
from typing import Annotated, Any, Final

from fastapi import Header, Path, Request, Response

from api.answers import Json
from api.auth.access import Acting, Reader, Writer
from api.context import Context
from api.problems import ApiError, NotFound, Problem
from api.routing import (
    MAX_NUMBER,
    Cursor,
    IdempotencyKey,
    Limit,
    Space,
    cursor_of,
    make_router,
    media_type,
    page_of,
    parse_json,
    read_cursor,
)
from api.schemas.profile import ProfileGiven, ProfileShown, RollbackGiven, Saved, Version, VersionPage
from memory.model.errors import UnreadableProfile
from memory.model.steps import WriteStatus
from starter.handles import MAX_DOCUMENT_BYTES
from starter.views import EditResult, ProfileView

router = make_router("profile")

MARKDOWN: Final = "text/markdown"
MAX_VERSIONS: Final = 1_000
_ETAG = re.compile(r'"([\x21\x23-\x7e]{1,200})"')

IfMatch = Annotated[
    str | None,
    Header(
        alias="If-Match", description="the `ETag` of the profile that was read", examples=['"9b2cf535f27731c974343645a3985328"']
    ),
]
IfNoneMatch = Annotated[str | None, Header(alias="If-None-Match", description="`*`: there must be no profile yet")]
VersionPath = Annotated[int, Path(ge=1, le=MAX_NUMBER, description="as in the list of versions")]

AS_TEXT: Final[dict[str, Any]] = {"schema": {"type": "string"}, "example": "# User Memory\n\n## Identity\n- Lives in Berlin.\n"}
CONFLICT: Final[dict[str, Any]] = {
    "model": Problem,
    "description": "The profile changed since that version; nothing was overwritten. The problem has `yours`, `theirs`, `etag` and "
    "`version`, to merge them and save again.",
}
WRITES: Final[dict[int | str, dict[str, Any]]] = {
    409: {"model": Problem, "description": "The company has more than one active memory root, or the stored file is unreadable"},
    412: CONFLICT,
    428: {"model": Problem, "description": "The request names no version: send `If-Match`"},
}


def quoted(etag: str) -> str:
    return f'"{etag}"'


def expected_version(if_match: str | None, if_none_match: str | None) -> str | None:
    """The ETag that must be there now; None: there must be no profile. Raises ApiError (400, 428)."""
    if if_match is not None and if_none_match is not None:
        raise ApiError(400, "invalid-precondition", "send If-Match or If-None-Match, not both")
    if if_none_match is not None:
        if if_none_match.strip() != "*":
            raise ApiError(400, "invalid-precondition", "If-None-Match takes * here: there must be no profile yet")
        return None
    if if_match is None or if_match.strip() == "*":
        raise ApiError(
            428,
            "precondition-required",
            "say which version was read: If-Match with the ETag of the profile, or If-None-Match: * where there was none",
        )
    found = _ETAG.fullmatch(if_match.strip())
    if found is None:
        raise ApiError(400, "invalid-precondition", 'If-Match takes the one ETag of the profile, as in "9b2cf5"')
    return found[1]


@router.get(
    "/profile",
    summary="Read the profile",
    response_model=ProfileShown,
    responses={
        200: {
            "content": {MARKDOWN: {"schema": {"type": "string"}, "example": "# User Memory\n\n## Identity\n- Lives in Berlin.\n"}}
        },
        304: {"description": "The profile is still the one of `If-None-Match`"},
        409: WRITES[409],
    },
)
async def get_profile(
    context: Context,
    acting: Reader,
    request: Request,
    space: Space = "default",
    if_none_match: Annotated[
        str | None, Header(alias="If-None-Match", description="the `ETag` of the profile that is known")
    ] = None,
) -> Response:
    """The body without frontmatter. Where there is no profile the answer is an empty state, and none is made.

    With `Accept: text/markdown` the answer is the body itself.
    """
    view = await _view(context, acting, space=space)
    headers = {"Vary": "Accept"} | ({} if view.etag is None else {"ETag": quoted(view.etag)})
    if view.etag is not None and if_none_match is not None and _is_known(view.etag, request.headers.getlist("if-none-match")):
        return Response(status_code=304, headers=headers)
    return _shown(request, view, headers)


def _is_known(etag: str, given: list[str]) -> bool:
    """Whether ``If-None-Match``, a list or ``*``, has it; compared weakly, as RFC 9110 wants it there."""
    told = [one.strip().removeprefix("W/") for line in given for one in line.split(",")]
    return quoted(etag) in told or told == ["*"]


def _shown(request: Request, view: ProfileView, headers: dict[str, str]) -> Response:
    accepted = [one.partition(";")[0].strip().lower() for one in request.headers.get("accept", "").split(",")]
    if MARKDOWN in accepted and "application/json" not in accepted:
        # Text with half of a surrogate pair never gets into a store; if another program put it there, it is shown as unreadable.
        return Response(view.body.encode("utf-8", "replace"), media_type=f"{MARKDOWN}; charset=utf-8", headers=headers)
    return Json(ProfileShown.of(view).model_dump(mode="json"), headers=headers)


async def _view(context: Context, acting: Acting, *, space: str = "default", version: int | None = None) -> ProfileView:
    try:
        return await context.memory.get_profile(acting.scope, space_id=space, version=version)
    except UnreadableProfile as error:
        raise unreadable(error) from None


def unreadable(error: UnreadableProfile) -> ApiError:
    return ApiError(409, "unreadable-profile", error.message, extra={"etag": error.etag, "version": error.version})


# ------------------------------------------------------------------------------------------------------------------- saving


@router.put(
    "/profile",
    summary="Save the profile",
    response_model=Saved,
    responses={
        200: {"headers": {"ETag": {"schema": {"type": "string"}, "description": "of the profile as it is now"}}},
        413: {"model": Problem, "description": "More than 1 MiB of UTF-8; nothing was changed"},
        415: {"model": Problem, "description": "Neither JSON nor Markdown"},
        **WRITES,
    },
    openapi_extra={
        "requestBody": {
            "required": True,
            "description": "the whole body as JSON, or as the raw Markdown",
            "content": {
                "application/json": {"schema": ProfileGiven.model_json_schema()},
                MARKDOWN: AS_TEXT,
            },
        }
    },
)
async def save_profile(
    context: Context,
    acting: Writer,
    request: Request,
    response: Response,
    if_match: IfMatch = None,
    if_none_match: IfNoneMatch = None,
    key: IdempotencyKey = None,
) -> Saved:
    """Store the body that a person edited. It waits for a write of the pipeline in progress, and never undoes one.

    What does not fit the six sections is kept where it does least harm; frontmatter in it is ignored; secrets are redacted. A blank
    document empties the memory. With an `Idempotency-Key` the same save again is one version, however often it is sent.
    """
    expected = expected_version(if_match, if_none_match)
    document = document_of(media_type(request), await request.body())
    result = await context.memory.edit_profile(acting.scope, document, expected_etag=expected, edit_id=key)
    return _saved(result, response)


def document_of(kind: str, body: bytes) -> str:
    """The text to be saved. Raises ApiError."""
    if kind == "application/json":
        parsed = parse_json(body)
        document = parsed.get("document") if isinstance(parsed, dict) and set(parsed) == {"document"} else None  # pyright: ignore[reportUnknownArgumentType,reportUnknownVariableType,reportUnknownMemberType]
        if not isinstance(document, str):
            raise ApiError(422, "invalid-request", 'the body is {"document": "<the whole text>"}')
        size = len(document.encode("utf-8", "surrogatepass"))
    elif kind == MARKDOWN:
        size = len(body)
        try:
            document = "" if size > MAX_DOCUMENT_BYTES else body.decode()
        except UnicodeDecodeError as error:
            raise ApiError(
                400, "invalid-text", f"the document is not valid UTF-8 at byte {error.start}; nothing was changed"
            ) from None
    else:
        raise ApiError(415, "unsupported-media-type", 'send {"document": …} as application/json, or the text as text/markdown')
    if size > MAX_DOCUMENT_BYTES:
        raise ApiError(
            413,
            "too-large",
            f"the document has {size} bytes of UTF-8; at most {MAX_DOCUMENT_BYTES} are accepted; nothing was changed",
        )
    return document


def _saved(result: EditResult, response: Response) -> Saved:
    match result.status:
        case WriteStatus.SAVED | WriteStatus.UNCHANGED:
            if result.etag is not None:
                response.headers["ETag"] = quoted(result.etag)
            return Saved(status=result.status, version=result.version, etag=result.etag)
        case WriteStatus.CONFLICT:
            raise ApiError(
                412,
                "profile-conflict",
                "the profile changed since that version; nothing was overwritten: merge the two and save with the new ETag",
                headers={} if result.etag is None else {"ETag": quoted(result.etag)},
                extra={"yours": result.yours, "theirs": result.theirs, "etag": result.etag, "version": result.version},
            )
        case WriteStatus.NOT_FOUND:
            raise NotFound("there is no such version (any more)")
        case _:
            raise ApiError(503, "unavailable", f"nothing was changed ({result.reason}); save again in a while")


# ------------------------------------------------------------------------------------------------------------------ history


@router.get("/profile/versions", summary="List versions of the profile")
async def list_profile_versions(context: Context, acting: Reader, limit: Limit = 50, cursor: Cursor = None) -> VersionPage:
    """Newest first; what was written when, by what. Empty where there is no profile."""
    below: int | None = None
    if cursor is not None:
        (below,) = read_cursor(cursor, "versions", int)
    # Without a cursor the newest are enough; a later page looks through the list from its beginning, which is bounded.
    known = await context.memory.history(acting.scope, limit=limit + 1 if below is None else MAX_VERSIONS)
    page, last = page_of([one for one in known if below is None or one.version < below], limit)
    return VersionPage(items=[Version.of(one) for one in page], next=None if last is None else cursor_of("versions", last.version))


@router.get(
    "/profile/versions/{version}",
    summary="Read a version of the profile",
    response_model=ProfileShown,
    responses={200: {"content": {MARKDOWN: AS_TEXT}}, 409: WRITES[409]},
)
async def get_profile_version(
    context: Context, acting: Reader, request: Request, version: VersionPath, space: Space = "default"
) -> Response:
    """The body as it was then; as Markdown with `Accept: text/markdown`."""
    view = await _view(context, acting, space=space, version=version)
    if not view.exists:
        raise NotFound("there is no such version (any more)")
    return _shown(request, view, {"Vary": "Accept"} | ({} if view.etag is None else {"ETag": quoted(view.etag)}))


@router.post(
    "/profile/rollback", summary="Go back to a version", responses={404: {"description": "There is no such version"}, **WRITES}
)
async def roll_back_profile(
    context: Context,
    acting: Writer,
    wanted: RollbackGiven,
    response: Response,
    if_match: IfMatch = None,
    key: IdempotencyKey = None,
) -> Saved:
    """Make an earlier version the newest again. The history stays, so this can be undone in the same way."""
    expected = expected_version(if_match, None)
    result = await context.memory.rollback(acting.scope, wanted.to_version, expected_etag=expected, edit_id=key)
    return _saved(result, response)
