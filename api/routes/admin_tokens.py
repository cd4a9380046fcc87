"""Service tokens of the company: by them an orchestrator acts for its users."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Annotated, Final, Literal

from fastapi import Path, Response
from pydantic import AwareDatetime, BaseModel, ConfigDict, Field

from api.auth.access import Administrator
from api.context import Context
from api.problems import NotFound
from api.routing import make_router
from memory.model.service_token import make_token
from memory.ports.service import ServiceToken

MAX_DAYS: Final = 3_650

router = make_router("admin")

TokenPath = Annotated[str, Path(pattern=r"^[a-z2-7]{16}$", description="as in the list", examples=["abcdefghijklmnop"])]
Allowed = Literal["read", "write", "forget"]


class Token(BaseModel):
    """What is known of a token; its secret is not."""

    token_id: str = Field(examples=["abcdefghijklmnop"])
    name: str = Field(examples=["the chat backend"])
    permissions: list[str] = Field(examples=[["read", "write"]])
    state: Literal["active", "expired", "revoked"]
    created_at: AwareDatetime
    expires_at: AwareDatetime | None
    revoked_at: AwareDatetime | None
    last_used_at: AwareDatetime | None = Field(description="to the minute")


class Tokens(BaseModel):
    items: list[Token]


class NewToken(BaseModel):
    """A token for administration is made by the operator: `afterturn tokens create --allow admin`."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [{"name": "the chat backend", "expires_in_days": 90}]})

    name: str = Field(min_length=1, max_length=200, description="what it is for, in a line")
    permissions: list[Allowed] = Field(
        default_factory=lambda: ["read", "write"], min_length=1, max_length=3, description="what it may do with users' memory"
    )
    expires_in_days: int | None = Field(90, ge=1, le=MAX_DAYS, description="null: it never ends by itself")


class CreatedToken(Token):
    token: str = Field(description="the token itself; this answer is the only one that has it", examples=["aft_abcdefghijklmnop_…"])


@router.get("/admin/tokens")
async def admin_tokens(context: Context, principal: Administrator) -> Tokens:
    """The newest 1,000 tokens of the company, newest first, also those that have ended."""
    now = datetime.now(UTC)
    return Tokens(items=[_view(token, now) for token in await context.tokens.list(principal.tenant)])


@router.post("/admin/tokens", status_code=201)
async def admin_create_token(context: Context, principal: Administrator, body: NewToken, response: Response) -> CreatedToken:
    """Make a token. It is shown once: only a hash of it is kept. Whoever holds it acts for every user of the company."""
    now = datetime.now(UTC)
    made = make_token()
    token = await context.tokens.create(
        principal.tenant,
        token_id=made.token_id,
        secret_hash=made.secret_hash,
        name=body.name,
        permissions=body.permissions,
        expires_at=None if body.expires_in_days is None else now + timedelta(days=body.expires_in_days),
        now=now,
    )
    response.headers["Cache-Control"] = "no-store"
    return CreatedToken(**_view(token, now).model_dump(), token=made.text)


@router.delete("/admin/tokens/{token_id}", status_code=204)
async def admin_revoke_token(context: Context, principal: Administrator, token_id: TokenPath) -> None:
    """End a token at once. It cannot be taken back; the same again changes nothing."""
    if not await context.tokens.revoke(principal.tenant, token_id, now=datetime.now(UTC)):
        raise NotFound("the company has no such token")


def _view(token: ServiceToken, now: datetime) -> Token:
    state = "revoked" if token.revoked_at is not None else "active" if token.usable(now) else "expired"
    return Token(
        token_id=token.token_id,
        name=token.name,
        permissions=list(token.permissions),
        state=state,
        created_at=token.created_at,
        expires_at=token.expires_at,
        revoked_at=token.revoked_at,
        last_used_at=token.last_used_at,
    )
