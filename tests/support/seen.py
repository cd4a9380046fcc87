"""What a story left behind, as users and operators see it: two of them can be compared."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from memory.model.scope import Scope
from memory.model.steps import RunTotals, WriteStatus
from starter.views import EditResult
from tests.support.fleet import World
from tests.support.waiting import until
from tests.support.webhook import WebhookReceiver


@dataclass
class Seen:
    """What a story left behind, as users and operators see it."""

    ledger: dict[str, tuple[str, str | None, int, str | None, int | None]]
    """Turn → state, outcome, attempt, reason, profile version."""
    totals: Counter[str]
    """Outcomes that the runs counted."""
    body: str
    version: int
    turn_count: int
    history: list[tuple[int, str | None]]
    """Version and cause, oldest first."""
    notices: dict[str, list[str]]
    """Notice → distinct steps in the order of their first arrival."""
    replies: list[tuple[WriteStatus, int | None]]
    """Of the user's own saves and roll-backs."""
    arrivals: dict[str, list[str]] = field(compare=False)
    """Notice → all steps as they arrived, repeats included."""

    def check_notices(self) -> None:
        """Whatever was shown was removed, and nothing was shown after that."""
        for steps in self.arrivals.values():
            assert steps[0] == "updating_started"
            assert steps[-1] == "updating_completed"


async def look(world: World, user: Scope, webhook: WebhookReceiver, replies: Sequence[EditResult] = ()) -> Seen:
    ledger = await world.ledger(user)
    view = await world.memory.get_profile(user)
    history = await world.memory.history(user, limit=1000)
    totals: Counter[str] = Counter()

    async def counted() -> bool:
        """Visibility lags behind the runs."""
        totals.clear()
        async for run in world.client.list_workflows("WorkflowType = 'PostAnswerWorkflow'"):
            handle = world.client.get_workflow_handle(run.id, run_id=run.run_id, result_type=RunTotals)
            totals.update((await handle.result()).model_dump(exclude={"runs"}))
        return sum(totals.values()) >= len(ledger) + sum(reply.status is WriteStatus.SAVED for reply in replies)

    await until(counted, what="the totals of all runs")
    arrivals: dict[str, list[str]] = {}
    for notice in list(webhook.notices):
        arrivals.setdefault(",".join(notice["turn_ids"]), []).append(notice["step"])
    return Seen(
        ledger={key: (row.state, row.outcome, row.attempt, row.reason, row.profile_version) for key, row in ledger.items()},
        totals=+totals,
        body=view.body,
        version=view.version,
        turn_count=view.turn_count,
        history=[(version.version, version.cause) for version in reversed(history)],
        notices={key: list(dict.fromkeys(steps)) for key, steps in arrivals.items()},
        replies=[(reply.status, reply.version) for reply in replies],
        arrivals=arrivals,
    )
