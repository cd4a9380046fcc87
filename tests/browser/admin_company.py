"""Companies for tests of the admin page: spaces, usage, failures, clashing roots."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from memory.model.category import Category
from memory.model.directory import SpaceSettings
from memory.model.event import MessageEvent
from memory.model.scope import Scope
from memory.model.turn import Outcome, Turn
from memory.model.window import CategoryOutcome, WindowState
from memory.ports import TurnResult, Usage, WindowResult
from tests.browser.site import Open, Site, Visit

CANARY = "the canary sings in Reykjavik"


@dataclass
class Company:
    """``admin``: who administers it."""

    site: Site
    tenant: str
    admin: Scope

    @classmethod
    def new(cls, site: Site, name: str = "acme") -> Company:
        tenant = f"{name}-{uuid.uuid4().hex[:6]}"
        return cls(site, tenant, Scope.of(tenant, "ada.admin"))

    async def visit(self, open_page: Open, **options: object) -> Visit:
        return await open_page(self.admin, "/admin", admin=True, **options)  # type: ignore[arg-type]

    async def turn(
        self, user: str, turn_id: str, *, space: str = "default", outcome: Outcome = Outcome.UPDATED, minutes_ago: int = 0
    ) -> None:
        scope, at = Scope.of(self.tenant, user), datetime.now(UTC) - timedelta(minutes=minutes_ago)
        log = self.site.stack.parts.log
        await log.record_turn(scope, Turn(turn_id=turn_id, user_text=CANARY, occurred_at=at, space_id=space), now=at)
        kept = outcome is Outcome.KEPT
        used = {"gate": {"input_tokens": 310, "output_tokens": 1, "cached_input_tokens": 0, "calls": 1}}
        if not kept:
            used["consolidate"] = {"input_tokens": 1480, "output_tokens": 260, "cached_input_tokens": 0, "calls": 1}
        result = TurnResult(
            turn_id=turn_id,
            attempt=0,
            outcome=outcome,
            reason="the model did not answer in time" if kept else None,
            profile_version=None,
            run_id="0198c5aa-7be1-7d41-a7a2-6a3f0c9f1d55",
            workflow_id=scope.post_answer_workflow_id,
            flags=("gate_failed",) if kept else (),
            usage=used,
            durations_ms={},
            model="openai:gpt-4.1-mini",
        )
        await log.finish(scope, [result], now=at)

    async def failed_window(self, user: str, name: str, *, minutes_ago: int = 0) -> None:
        scope, at = Scope.of(self.tenant, user), datetime.now(UTC) - timedelta(minutes=minutes_ago)
        ledger = self.site.stack.parts.ledger
        event = MessageEvent(timestamp=at, sender_id="user", content=CANARY)
        window = await ledger.open_chunk(
            scope, [event], chunk_id=f"chunk-{name}", categories=[Category.TASKS], guidance=CANARY, model=None, now=at
        )
        outcomes = (CategoryOutcome(category=Category.TASKS, state="failed", reason="the reply was cut off"),)
        result = WindowResult(WindowState.PARTIAL, outcomes=outcomes, run_id="0198c5ab", workflow_id="")
        await ledger.commit(scope, window.window_id, 0, result, now=at)

    async def spent(self, user: str, tokens: int, *, stage: str = "consolidate", days_ago: int = 0) -> None:
        now = datetime.now(UTC) - timedelta(days=days_ago)
        usage = Usage(tokens, tokens // 8, tokens // 4)
        await self.site.stack.parts.usage.add(
            Scope.of(self.tenant, user), stage=stage, model="openai:gpt-4.1-mini", usage=usage, now=now
        )

    async def space(self, space_id: str, **settings: object) -> None:
        """As another administrator saves it."""
        await self.site.stack.parts.directory.save_space(self.tenant, space_id, SpaceSettings.model_validate(settings))

    async def lively(self) -> None:
        """With a little of everything."""
        await self.space("default", max_tokens=2400)
        await self.space("research", web_search=True, memory_categories={"tasks": True})
        await self.space(
            "support", consolidation_mode="edits", use_orchestrator_language_model=False, language_model="openai:gpt-4.1"
        )
        await self.space("archive", context_memory=False)
        people = ("maria.keller", "jonas.weber", "li.wei", "amara.okafor")
        for number, user in enumerate(people):
            for day in range(3):
                await self.spent(user, 9_000 - 1_700 * number, days_ago=day)
                await self.spent(user, 900, stage="gate", days_ago=day)
        for number in range(14):
            space = ("default", "default", "research", "support")[number % 4]
            outcome = Outcome.UPDATED if number % 3 else Outcome.NOOP
            await self.turn(people[number % 4], f"turn-{number}", space=space, outcome=outcome, minutes_ago=number)
        await self.turn("jonas.weber", "turn-4711", space="support", outcome=Outcome.KEPT, minutes_ago=40)
        await self.turn("li.wei", "turn-4702", outcome=Outcome.KEPT, minutes_ago=95)
        await self.failed_window("maria.keller", "3f9a02", minutes_ago=61)

    async def root(self, folder: str) -> None:
        await self.site.stack.parts.directory.provision_root(self.tenant, folder)
