"""What an operator reads in the Temporal Web UI about a run over windows, without any user text."""

from __future__ import annotations

from dataclasses import dataclass, field

from memory.model.category import Category
from memory.model.steps import StageUsage
from memory.model.window import CategoryOutcome, WindowState
from memory.model.window_steps import WindowTotals


@dataclass
class WindowInHand:
    """The window that is in work, and what is known of its outcome."""

    window_id: str | None = None
    events: int = 0
    first_seq: int = 0
    last_seq: int = 0
    stage: str = "waiting"
    state: WindowState | None = None
    reason: str | None = None
    capped: bool = False
    flags: list[str] = field(default_factory=list[str])
    outcomes: dict[Category, CategoryOutcome] = field(default_factory=dict[Category, CategoryOutcome])
    usage: dict[str, StageUsage] = field(default_factory=dict[str, StageUsage])
    durations_ms: dict[str, int] = field(default_factory=dict[str, int])
    loops: list[str] = field(default_factory=list[str])
    """Knowledge loops that were started."""

    @property
    def name(self) -> str:
        """``w3 (events 101 to 150)``."""
        if self.window_id is None:
            return ""
        return f"{self.window_id} (events {self.first_seq} to {self.last_seq})"

    def end(self, state: WindowState, reason: str | None) -> None:
        self.state, self.reason = state, reason

    def spend(self, stage: str, usage: StageUsage) -> None:
        self.usage[stage] = self.usage[stage].plus(usage) if stage in self.usage else usage

    def took(self, step: str, elapsed_ms: int) -> None:
        self.durations_ms[step] = self.durations_ms.get(step, 0) + elapsed_ms

    def line(self) -> str:
        """``w3 (events 101 to 150): DONE, 7 applied``."""
        if self.window_id is None:
            return ""
        applied = sum(one.applied for one in self.outcomes.values())
        reason = f" ({self.reason})" if self.reason else ""
        return f"{self.name}: {self.state.value.upper() if self.state else 'RUNNING'}{reason}, {applied} applied"


def details_markdown(window: WindowInHand, history: list[str], totals: WindowTotals) -> str:
    """Markdown for ``workflow.set_current_details``: stage, the window's categories and tokens, the last windows, totals."""
    parts = [f"**{window.line() or 'no window yet'}** — {window.stage}"]
    if window.flags:
        parts.append("flags: " + ", ".join(dict.fromkeys(window.flags)))
    if window.loops:
        parts.append("into tables: " + ", ".join(f"loop {loop_id}" for loop_id in window.loops))
    if window.outcomes:
        rows = [
            f"| {one.category.value} | {one.state} | {one.proposed} | {one.applied} | {one.confirmed} | {_dropped(one)} |"
            for one in window.outcomes.values()
        ]
        head = ["| category | state | proposed | applied | confirmed | dropped |", "|---|---|---|---|---|---|"]
        parts.append("\n".join([*head, *rows]))
    if window.usage:
        rows = [f"| {stage} | {used.calls} | {used.input_tokens} | {used.output_tokens} |" for stage, used in window.usage.items()]
        parts.append("\n".join(["| stage | calls | tokens in | tokens out |", "|---|---|---|---|", *rows]))
    if history:
        parts.append("\n".join(f"- {line}" for line in reversed(history)))
    parts.append(
        f"windows {totals.windows}, events {totals.events}, applied {totals.applied}, failed {totals.failed}, runs {totals.runs}"
    )
    return "\n\n".join(parts)


def _dropped(outcome: CategoryOutcome) -> int:
    return sum(outcome.dropped.values())
