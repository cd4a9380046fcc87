"""Where a user's memory stands: is it on, what waits, what it costs, what the user and the space chose."""

from __future__ import annotations

from datetime import date

from pydantic import Field, StrictBool

from api.schemas.base import Given, Page, Shown, example
from api.schemas.turns import TurnView
from memory.model.directory import ConsolidationMode, SpaceSettings
from memory.model.enablement import Enablement, ReasonCode
from memory.ports import Usage, UsageRow
from starter.views import UserStatus


class ReasonView(Shown):
    """`message`: what is off. `remedy`: who can do what about it."""

    code: ReasonCode
    message: str
    remedy: str


class EnablementView(Shown):
    """`active` exactly when there is no reason against it."""

    active: bool
    reasons: list[ReasonView]

    model_config = example(
        {
            "active": False,
            "reasons": [
                {
                    "code": "user_opted_out",
                    "message": "the user has opted out of context memory (what was stored is kept)",
                    "remedy": "the user switches allowUserMemory on in their preferences",
                }
            ],
        }
    )

    @classmethod
    def of(cls, found: Enablement) -> EnablementView:
        return cls(
            active=found.active,
            reasons=[ReasonView(code=one.code, message=one.message, remedy=one.remedy) for one in found.reasons],
        )


class StatusView(Shown):
    """A part that could not be read is null and named in `unavailable` with the reason."""

    running: bool | None = Field(description="a run of the user's pipeline is at work")
    stage: str | None = Field(description="of that run", examples=["consolidating"])
    idle: bool | None = Field(description="nothing waits and nothing runs")
    pending_turns: int | None = Field(description="recorded and not finished; counted up to 1,000")
    recent: list[TurnView] = Field(description="the last turns, newest first")
    profile_version: int | None
    profile_etag: str | None
    enablement: EnablementView | None
    unavailable: dict[str, str]

    @classmethod
    def of(cls, status: UserStatus) -> StatusView:
        idle = None if status.running is None or status.pending_turns is None else not status.running and not status.pending_turns
        return cls(
            running=status.running,
            stage=status.stage,
            idle=idle,
            pending_turns=status.pending_turns,
            recent=[TurnView.of(turn) for turn in status.recent],
            profile_version=status.profile_version,
            profile_etag=status.profile_etag,
            enablement=None if status.enablement is None else EnablementView.of(status.enablement),
            unavailable=dict(status.unavailable),
        )


class SettingsView(Shown):
    """What the space says that a user may want to know."""

    context_memory: bool = Field(description='the "Context memory" toggle')
    web_search: bool
    use_orchestrator_language_model: bool
    language_model: str | None = Field(description="of the memory, where the turn's own is not used; null: the deployment's")
    max_tokens: int = Field(description="the budget of the profile")
    consolidation_gate_enabled: bool
    consolidation_mode: ConsolidationMode
    privacy_scrub: bool
    show_update_notice: bool

    @classmethod
    def of(cls, space: SpaceSettings) -> SettingsView:
        told = space.model_dump(exclude={"context_memory", "memory_categories", "root_folder"})
        return cls(context_memory=space.context_memory is not False, **told)


class Preference(Given):
    """The user's own choice for all spaces. Opting out neither loads nor updates memory; it deletes nothing."""

    allow_user_memory: StrictBool

    model_config = example({"allow_user_memory": True})


class Teams(Shown):
    """The user's teams, by name; facts and guidance of theirs are found too."""

    items: list[str]


class UsageCounts(Shown):
    input_tokens: int
    output_tokens: int
    cached_input_tokens: int
    calls: int

    @classmethod
    def of(cls, usage: Usage) -> UsageCounts:
        return cls(
            input_tokens=usage.input_tokens,
            output_tokens=usage.output_tokens,
            cached_input_tokens=usage.cached_input_tokens,
            calls=usage.calls,
        )


class UsageView(UsageCounts):
    """Tokens of one day (UTC), stage and model."""

    day: date
    stage: str = Field(examples=["consolidate"])
    model: str

    @classmethod
    def of_row(cls, row: UsageRow) -> UsageView:
        return cls(day=row.day, stage=row.stage, model=row.model, **UsageCounts.of(row.usage).model_dump())


class UsagePage(Page[UsageView]):
    """Newest day first."""

    total: UsageCounts = Field(description="of all parts of the list")
