"""What an operator reads in the Temporal Web UI about a run: one batch of turns and the last outcomes, without any user text."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from memory.model.steps import RunTotals, StageUsage, TurnRef
from memory.model.turn import Outcome


@dataclass
class Batch:
    """The turns that are in hand, and what is known of their outcome."""

    turns: tuple[TurnRef, ...] = ()
    stage: str = "waiting"
    outcome: Outcome | None = None
    reason: str | None = None
    version: int | None = None
    model: str | None = None
    flags: list[str] = field(default_factory=list[str])
    usage: dict[str, StageUsage] = field(default_factory=dict[str, StageUsage])
    durations_ms: dict[str, int] = field(default_factory=dict[str, int])
    notice: asyncio.Task[None] | None = None
    """Shows the notice; done before its removal is sent, which must not overtake it."""

    def end(self, outcome: Outcome, reason: str | None, version: int | None = None) -> None:
        self.outcome, self.reason, self.version = outcome, reason, version

    def spend(self, stage: str, usage: StageUsage, elapsed_ms: int) -> None:
        """Add one step's tokens and milliseconds."""
        if usage.calls:
            self.usage[stage] = self.usage[stage].plus(usage) if stage in self.usage else usage
        if elapsed_ms:
            self.durations_ms[stage] = self.durations_ms.get(stage, 0) + elapsed_ms

    def line(self) -> str:
        """``turn 42: UPDATED → v43``."""
        if not self.turns:
            return ""
        first, last = self.turns[0].ordinal, self.turns[-1].ordinal
        which = f"turn {first}" if first == last else f"turns {first}–{last}"
        version = f" → v{self.version}" if self.version is not None else ""
        reason = f" ({self.reason})" if self.reason else ""
        return f"{which}: {self.outcome.value.upper() if self.outcome else 'RUNNING'}{version}{reason}"


def details_markdown(batch: Batch, history: list[str], totals: RunTotals, version: int | None) -> str:
    """Markdown for ``workflow.set_current_details``: the stage, the batch's steps, the last outcomes, the totals."""
    rows = [
        f"| {stage} | {usage.calls} | {usage.input_tokens} | {usage.output_tokens} | {batch.durations_ms.get(stage, 0)} |"
        for stage, usage in batch.usage.items()
    ]
    rows += [f"| {stage} | | | | {ms} |" for stage, ms in batch.durations_ms.items() if stage not in batch.usage]
    parts = [f"**{batch.line() or 'no turn yet'}** — {batch.stage}" + (f", profile v{version}" if version is not None else "")]
    if batch.flags:
        parts.append("flags: " + ", ".join(dict.fromkeys(batch.flags)))
    if rows:
        parts.append("\n".join(["| stage | calls | tokens in | tokens out | ms |", "|---|---|---|---|---|", *rows]))
    if history:
        parts.append("\n".join(f"- {line}" for line in reversed(history)))
    parts.append(
        f"updated {totals.updated}, noop {totals.noop}, kept {totals.kept}, skipped {totals.skipped}, edits {totals.edits}, "
        f"runs {totals.runs}"
    )
    return "\n\n".join(parts)
