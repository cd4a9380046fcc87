"""What an administrator sees and changes: ``/v1/admin/…``. Ids, counts and settings of the own company, never anybody's memory."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, Final, Literal

from fastapi import APIRouter
from pydantic import AwareDatetime, BaseModel, Field

from api.auth.access import Administrator
from api.context import ApiContext, Context
from api.routes import admin_roots, admin_runs, admin_spaces, admin_tokens, admin_usage
from api.routes.admin_roots import Clash, clash_of
from api.routing import make_router
from memory.model.category import Category
from memory.model.directory import SpaceSettings
from memory.model.enablement import is_flagged
from memory.model.process_flags import SEEN_WITHIN, differences
from memory.ports.service import Process
from memory.settings import PREFIX
from starter.roots import active_of

FEATURE_FLAG: Final = "FEATURE_FLAG_ENABLE_CONTEXT_MEMORY_UN_22033"
ALLOW_WITH_WEB_SEARCH: Final = "ALLOW_CONTEXT_MEMORY_WITH_WEB_SEARCH_UN_22591"
_SETTINGS: Final = {"feature_flag": FEATURE_FLAG, "allow_with_web_search": ALLOW_WITH_WEB_SEARCH}
OPERATOR: Final = "the operator of this deployment, in the environment of all API and worker processes"

router = make_router("admin")


class FeatureFlag(BaseModel):
    """Whether memory exists for the company, as this process has it."""

    on: bool
    rule: Literal["everyone", "nobody", "listed", "not_listed"] = Field(
        description="on or off for all companies, or a list of companies with or without this one"
    )
    setting: str = Field(examples=[FEATURE_FLAG])
    changed_by: str = Field(examples=[OPERATOR])


class OperatorFlag(BaseModel):
    on: bool
    setting: str = Field(examples=[ALLOW_WITH_WEB_SEARCH])
    changed_by: str = Field(examples=[OPERATOR])


class RunningProcess(BaseModel):
    """`flags`: what memory being on depends on in that process; its `feature_flag`: whether memory exists for this company."""

    process_id: str = Field(examples=["worker@host-1-4711-a1b2c3"])
    kind: Literal["api", "worker"]
    version: str
    started_at: AwareDatetime
    seen_at: AwareDatetime
    flags: dict[str, Any]


class FlagInProcesses(BaseModel):
    value: Any
    processes: list[str]


class DifferingFlag(BaseModel):
    """A flag in which running processes differ: what one part does, another one may refuse."""

    flag: str = Field(examples=["feature_flag"])
    setting: str = Field(description="the setting of the environment", examples=[FEATURE_FLAG])
    values: list[FlagInProcesses] = Field(description="the value that most processes have comes first")
    message: str
    remedy: str


class Overview(BaseModel):
    tenant: str
    feature_flag: FeatureFlag
    allow_with_web_search: OperatorFlag
    categories: dict[Category, bool] = Field(description="of the event window, where a space says nothing")
    language_model: str = Field(description="used where a space names none", examples=["anthropic:claude-haiku-4-5"])
    window_model: str = Field(description="extracts from windows of events")
    space_defaults: dict[str, Any] = Field(description="of settings that a space does not set")
    active_roots: list[str]
    clash: Clash | None = Field(description="several active roots: memory is off until one is left")
    processes: list[RunningProcess]
    differences: list[DifferingFlag]
    temporal_ui_url: str | None = Field(description="the Temporal Web UI")


@router.get("/admin/overview")
async def admin_overview(context: Context, principal: Administrator) -> Overview:
    """Whether memory exists for the company, the defaults of its spaces, its roots, and the processes that run.

    The answer is made of the flags of the process that answers; `differences` says where another one has others.
    """
    settings, tenant = context.settings, principal.tenant
    roots = await context.memory.roots.list(tenant)
    processes = await running_processes(context, tenant)
    flag = settings.feature_flag
    on = is_flagged(flag, tenant)
    return Overview(
        tenant=principal.tenant_id,
        feature_flag=FeatureFlag(
            on=on,
            rule=("everyone" if flag else "nobody") if isinstance(flag, bool) else "listed" if on else "not_listed",
            setting=FEATURE_FLAG,
            changed_by=OPERATOR,
        ),
        allow_with_web_search=OperatorFlag(on=settings.allow_with_web_search, setting=ALLOW_WITH_WEB_SEARCH, changed_by=OPERATOR),
        categories=settings.memory_flags,
        language_model=settings.language_model,
        window_model=settings.window_model or settings.language_model,
        space_defaults=SpaceSettings().model_dump(mode="json", exclude={"context_memory"}) | {"context_memory": True},
        active_roots=list(active_of(roots)),
        clash=clash_of(roots),
        processes=[RunningProcess.model_validate(one, from_attributes=True) for one in processes],
        differences=[
            DifferingFlag(
                flag=one.flag,
                setting=_SETTINGS.get(one.flag, PREFIX + one.flag.upper()),
                values=[FlagInProcesses(value=value.value, processes=list(value.processes)) for value in one.values],
                message=one.told,
                remedy="the operator gives all processes the same value and restarts those that have another one",
            )
            for one in differences(processes)
        ],
        temporal_ui_url=settings.temporal_ui_url,
    )


async def running_processes(context: ApiContext, tenant: str) -> list[Process]:
    """With what the feature flag says of this company in place of a list of companies: the others are nobody's business here."""
    found = await context.processes.running(since=datetime.now(UTC) - SEEN_WITHIN)
    return [
        Process(one.process_id, one.kind, one.version, one.started_at, one.seen_at, _of_company(one.flags, tenant)) for one in found
    ]


def _of_company(flags: Any, tenant: str) -> dict[str, Any]:
    told: dict[str, Any] = dict(flags)
    flag = told.get("feature_flag")
    if isinstance(flag, list):
        told["feature_flag"] = is_flagged(frozenset(str(name) for name in flag), tenant)  # pyright: ignore[reportUnknownVariableType,reportUnknownArgumentType]
    return told


ROUTERS: Final[tuple[APIRouter, ...]] = (
    router,
    admin_spaces.router,
    admin_roots.router,
    admin_usage.router,
    admin_runs.router,
    admin_tokens.router,
)
