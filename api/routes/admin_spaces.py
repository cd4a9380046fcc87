"""Settings of spaces, what is stored told apart from what counts, and why memory is off."""

from __future__ import annotations

import re
from typing import Annotated, Any, Final

from fastapi import Depends, Header, Response
from fastapi import Path as PathParameter
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator
from pydantic_core import PydanticCustomError

from api.auth.access import Administrator
from api.context import ApiContext, Context
from api.problems import ApiError, Problem
from api.routing import Cursor, Id, Limit, cursor_of, make_router, page_of, read_cursor
from memory.llm.factory import PROVIDERS
from memory.model.category import Category
from memory.model.directory import MAX_BUDGET_TOKENS, MIN_BUDGET_TOKENS, ConsolidationMode, MemoryFacts, SpaceSettings
from memory.model.enablement import Enablement, effective_enablement
from memory.model.errors import InvalidInput
from memory.model.ids import encode_segment, is_segment
from memory.model.scope import Scope
from memory.ports.administration import SpaceRecord
from starter.roots import active_of

EXAMPLE: Final[dict[str, Any]] = {"max_tokens": 1500, "consolidation_mode": "edits", "memory_categories": {"tasks": True}}
_MODEL: Final = re.compile(r"([a-z][a-z0-9_]*)(?::[!-~]+)?")
_ETAG: Final = re.compile(r'"([0-9a-f]{16})"')

router = make_router("admin")


class SpaceValues(BaseModel):
    """Settings of a space. What is absent or null is not stored and follows the default."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [EXAMPLE]})

    context_memory: bool | None = Field(None, description='the "Context memory" toggle; default: on')
    web_search: bool | None = Field(None, description="the space searches the web; default: off")
    use_orchestrator_language_model: bool | None = Field(None, description="the turn's own model writes the memory; default: on")
    language_model: str | None = Field(
        None,
        max_length=200,
        description="`provider:model`, used where use_orchestrator_language_model is off; default: the deployment's",
        examples=["openai:gpt-4.1-mini"],
    )
    max_tokens: int | None = Field(
        None, ge=MIN_BUDGET_TOKENS, le=MAX_BUDGET_TOKENS, description="budget of the profile; default: 2000"
    )
    consolidation_gate_enabled: bool | None = Field(
        None, description="a cheap call decides first whether a turn taught anything; default: on"
    )
    consolidation_mode: ConsolidationMode | None = Field(None, description="default: rewrite")
    privacy_scrub: bool | None = Field(
        None, description="a second model pass leaves other people out of a changed profile; default: off"
    )
    show_update_notice: bool | None = Field(None, description="an answer shows that memory is being updated; default: on")
    memory_categories: dict[Category, bool | None] | None = Field(
        None, description="of the event window, on or off; absent ones follow the deployment's flags"
    )
    root_folder: str | None = Field(
        None,
        pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]{0,62}$",
        description="not for forms: where the profiles lie. Another one than the company's is a clash; default: the company's",
    )

    @field_validator("language_model")
    @classmethod
    def _known_model(cls, name: str | None) -> str | None:
        if name is not None:
            found = _MODEL.fullmatch(name)
            if found is None or found[1] not in PROVIDERS:
                raise PydanticCustomError(
                    "language_model", "must be provider:model with a provider of {known}", {"known": ", ".join(PROVIDERS)}
                )
        return name


class Why(BaseModel):
    """One reason why memory is off, and who can do what about it."""

    code: str = Field(examples=["web_search_on"])
    message: str
    remedy: str


class MemoryState(BaseModel):
    """`active` exactly when there is no reason."""

    active: bool
    reasons: list[Why]


class Space(BaseModel):
    """`stored`: the keys that were set. `effective`: as they count, with the defaults."""

    space_id: str = Field(examples=["default"])
    stored: dict[str, Any] = Field(examples=[EXAMPLE])
    effective: dict[str, Any] = Field(examples=[{"max_tokens": 1500, "web_search": False}])
    problem: str | None = Field(description="a stored value is not valid: memory is off here until the settings are saved again")
    enablement: MemoryState = Field(description="for a user who allows memory")
    etag: str | None = Field(description="as in the header `ETag`, without quotes; null: nothing is stored")


class Spaces(BaseModel):
    items: list[Space]
    next: str | None


class EnablementQuestion(BaseModel):
    """Without a user: for one who allows memory."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [{"space_id": "default", "user": "user_123"}]})

    space_id: Id = "default"
    user: Id | None = None
    web_search: bool | None = Field(None, description="whether the turn searches the web; null: as the space says")
    allow_user_memory: bool = Field(True, description="the caller's consent in the turn")


SpacePath = Annotated[
    str,
    PathParameter(min_length=1, max_length=4096, description="the space's id, percent-encoded", examples=["default"]),
]


def _expected(
    if_match: Annotated[
        str | None, Header(description="the `ETag` that was read", examples=['"0123456789abcdef"'], max_length=200)
    ] = None,
    if_none_match: Annotated[
        str | None, Header(description="`*`: nothing is stored of this space yet", examples=["*"], max_length=200)
    ] = None,
) -> str | None:
    """The version that a write is meant for; None: nothing is stored."""
    if if_match is None and if_none_match is None:
        raise ApiError(428, "precondition-required", "say what you read: If-Match with its ETag, or If-None-Match: *")
    if if_match is not None and if_none_match is not None:
        raise InvalidInput("give If-Match or If-None-Match, not both")
    if if_match is None:
        if (if_none_match or "").strip() != "*":
            raise InvalidInput("If-None-Match of a write is *")
        return None
    found = _ETAG.fullmatch(if_match.strip())
    if found is None:
        raise InvalidInput("If-Match is one ETag of this API, in quotes")
    return found[1]


Expected = Annotated[str | None, Depends(_expected)]
_CONFLICT: Final[dict[int | str, dict[str, Any]]] = {
    412: {
        "model": Problem,
        "description": "Somebody saved meanwhile: nothing was stored. `yours` and `theirs` are in the body, and the `etag`.",
    },
    428: {"model": Problem, "description": "Neither If-Match nor If-None-Match was sent."},
}


@router.get("/admin/spaces")
async def admin_spaces(context: Context, principal: Administrator, limit: Limit = 50, cursor: Cursor = None) -> Spaces:
    """Spaces with stored settings. All others have the defaults."""
    after = None if cursor is None else read_cursor(cursor, "spaces", str)[0]
    if after is not None and not is_segment(after):
        raise InvalidInput("the cursor is not one of this list; begin without one")
    found = await context.spaces.spaces(principal.tenant, after=after, limit=limit + 1)
    roots = active_of(await context.memory.roots.list(principal.tenant))
    page, last = page_of(found, limit)
    return Spaces(
        items=[_view(context, principal.tenant, one, roots) for one in page],
        next=None if last is None else cursor_of("spaces", encode_segment(last.space_id)),
    )


@router.get("/admin/spaces/{space_id:path}")
async def admin_space(context: Context, principal: Administrator, space_id: SpacePath, response: Response) -> Space:
    """The settings of a space. One of which nothing is stored has the defaults; nothing is created."""
    record = await context.spaces.space(principal.tenant, space_id)
    return await _answer(context, principal.tenant, record, response)


@router.put("/admin/spaces/{space_id:path}", responses=_CONFLICT)
async def admin_save_space(
    context: Context, principal: Administrator, space_id: SpacePath, body: SpaceValues, expected: Expected, response: Response
) -> Space:
    """Store exactly these settings, and provision the company's root. What is left out follows the default again."""
    given = body.model_dump(mode="json", exclude_none=True)
    return await _save(context, principal.tenant, space_id, _compact(given), expected, response)


@router.patch("/admin/spaces/{space_id:path}", responses=_CONFLICT)
async def admin_change_space(
    context: Context, principal: Administrator, space_id: SpacePath, body: SpaceValues, expected: Expected, response: Response
) -> Space:
    """Change some settings, and provision the company's root. Null takes a stored one away, so that it follows the default."""
    record = await context.spaces.space(principal.tenant, space_id)
    changes = body.model_dump(mode="json", exclude_unset=True)
    merged: dict[str, Any] = {**record.stored, **changes}
    before, categories = record.stored.get("memory_categories"), changes.get("memory_categories")
    if isinstance(before, dict) and isinstance(categories, dict):
        merged["memory_categories"] = {**before, **categories}
    return await _save(context, principal.tenant, space_id, _compact(merged), expected, response)


@router.post("/admin/enablement")
async def admin_enablement(context: Context, principal: Administrator, body: EnablementQuestion) -> MemoryState:
    """Whether memory is on in a space, for a user or for everybody who allows it, and every reason why not."""
    if body.user is None:
        record = await context.spaces.space(principal.tenant, body.space_id)
        roots = active_of(await context.memory.roots.list(principal.tenant))
        return _state(context, principal.tenant, record, roots, web_search=body.web_search, consent=body.allow_user_memory)
    found = await context.memory.enablement(
        Scope.of(principal.tenant_id, body.user),
        space_id=body.space_id,
        allow_user_memory=body.allow_user_memory,
        web_search=body.web_search,
    )
    return _memory_state(found)


async def _save(
    context: ApiContext, tenant: str, space_id: str, values: dict[str, Any], expected: str | None, response: Response
) -> Space:
    try:
        settings = SpaceSettings.model_validate(values)
    except ValidationError as error:
        # What a caller sent was checked before: this is a stored value that is not valid.
        raise RequestValidationError(
            [{**one, "loc": ("body", *one["loc"])} for one in error.errors(include_url=False, include_input=False)]
        ) from None
    saved = await context.spaces.replace(tenant, space_id, settings, expected=expected)
    if saved is None:
        theirs = await context.spaces.space(tenant, space_id)
        raise ApiError(
            412,
            "conflict",
            "somebody saved the settings of this space meanwhile; nothing was stored: look at both and save again",
            extra={"yours": values, "theirs": dict(theirs.stored), "etag": theirs.version},
        )
    return await _answer(context, tenant, saved, response)


def _compact(values: dict[str, Any]) -> dict[str, Any]:
    """Without nulls: they stand for what is not stored."""
    kept = {name: value for name, value in values.items() if value is not None}
    categories = kept.get("memory_categories")
    if isinstance(categories, dict):
        kept["memory_categories"] = {name: on for name, on in categories.items() if on is not None}  # pyright: ignore[reportUnknownVariableType]
        if not kept["memory_categories"]:
            del kept["memory_categories"]
    return kept


async def _answer(context: ApiContext, tenant: str, record: SpaceRecord, response: Response) -> Space:
    roots = active_of(await context.memory.roots.list(tenant))
    if record.version is not None:
        response.headers["ETag"] = f'"{record.version}"'
    return _view(context, tenant, record, roots)


def _view(context: ApiContext, tenant: str, record: SpaceRecord, roots: tuple[str, ...]) -> Space:
    effective = record.settings.model_dump(mode="json")
    effective["context_memory"] = record.settings.context_memory is not False
    effective["language_model"] = record.settings.language_model or context.settings.language_model
    effective["memory_categories"] = {
        category.value: record.settings.memory_categories.get(category, on)
        for category, on in context.settings.memory_flags.items()
    }
    return Space(
        space_id=record.space_id,
        stored=dict(record.stored),
        effective=effective,
        problem=record.problem,
        enablement=_state(context, tenant, record, roots, web_search=None, consent=True),
        etag=record.version,
    )


def _state(
    context: ApiContext, tenant: str, record: SpaceRecord, roots: tuple[str, ...], *, web_search: bool | None, consent: bool
) -> MemoryState:
    found = _memory_state(
        effective_enablement(
            feature_flag=context.settings.feature_flag,
            allow_with_web_search=context.settings.allow_with_web_search,
            tenant=tenant,
            facts=MemoryFacts(space=record.settings, user_allows=True, active_roots=roots),
            allow_user_memory=consent,
            web_search=web_search,
        )
    )
    if record.problem is not None:
        remedy = "an administrator saves the settings of this space again"
        found.reasons.append(Why(code="space_settings_not_valid", message=record.problem, remedy=remedy))
        found.active = False
    return found


def _memory_state(found: Enablement) -> MemoryState:
    reasons = [Why(code=one.code.value, message=one.message, remedy=one.remedy) for one in found.reasons]
    return MemoryState(active=found.active, reasons=reasons)
