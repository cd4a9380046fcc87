"""How the demo looks on a terminal and in a plain log."""

from __future__ import annotations

from typing import Any

from rich.console import Console
from rich.text import Text

from memory.model.turn import Outcome
from starter.cli.output import safe_text
from starter.conversations import Conversation
from starter.demo import DemoReport, TurnReport

_MAX_SHOWN_CHARS = 160
_GONE = "gone when this command ends; --keep stays up"
_STYLES = {Outcome.UPDATED: "bold green", Outcome.NOOP: "cyan", Outcome.KEPT: "bold red", Outcome.SKIPPED: "yellow"}
_NAMES = {Outcome.UPDATED: "UPDATE", Outcome.NOOP: "NOOP", Outcome.KEPT: "KEPT", Outcome.SKIPPED: "SKIPPED"}


def show_start(console: Console, conversation: Conversation, *, model: str, where: str) -> None:
    console.print(
        Text(safe_text(conversation.title), style="bold"), Text(f"  {len(conversation.turns)} turns, {where}", style="dim")
    )
    if model.split(":")[0] == "simulated":
        console.print(
            Text(
                "The language model is simulated: fixed rules that read the same prompts and answer in the same form. The servers, "
                "the workflows and everything stored are real.",
                style="yellow",
            )
        )
    else:
        console.print(Text(f"The language model is {safe_text(model)}.", style="yellow"))
    console.print()


def show_turn(console: Console, report: TurnReport, total: int) -> None:
    """One line for the decision, then what was said and what changed."""
    head = Text.assemble(
        (f"turn {report.number}/{total}  ", "bold"),
        (_NAMES[report.outcome], _STYLES[report.outcome]),
        (f" → v{report.version}" if report.outcome is Outcome.UPDATED else f"   v{report.version}", "dim"),
        (f"  {report.seconds:.2f} s", "dim"),
    )
    notes = [safe_text(report.reason)] if report.reason else []
    notes += [safe_text(flag) for flag in report.flags]
    if report.redacted:
        notes.append("redacted: " + ", ".join(f"{kind} {count}" for kind, count in report.redacted.items()))
    if notes:
        head.append("  " + ", ".join(notes), style="dim")
    if not report.as_expected:
        head.append(f"  (the file expects {report.expected})", style="magenta")
    console.print(head)
    for who, said in (("user", report.user_text), ("assistant", report.assistant_text)):
        console.print(Text(f"  {who:<9} {_shown(said)}", style="dim" if who == "assistant" else ""))
    for line in report.diff:
        console.print(Text(f"    {safe_text(line)}", style=diff_style(line)))
    if report.leaked:
        console.print(Text(f"  {report.leaked} secrets of this conversation stand in the profile", style="bold red"))


def diff_style(line: str) -> str:
    return {"+": "green", "-": "red"}.get(line[:1], "dim")


def _shown(said: str | None) -> str:
    from memory.model.redaction import redact

    text = " ".join(safe_text(redact(said or "").text).split())
    if not text:
        return "(nothing)"
    return text if len(text) <= _MAX_SHOWN_CHARS else text[: _MAX_SHOWN_CHARS - 1] + "…"


def show_end(console: Console, report: DemoReport, *, run_url: str | None, stays: bool) -> None:
    """``stays``: the address of the run can still be opened when this command has ended, or while it waits."""
    console.print()
    console.print(Text(f"The profile of {safe_text(report.user)}, version {report.profile.version}", style="bold"))
    console.print(Text(safe_text(report.profile.body.rstrip("\n")) if report.profile.exists else "(nothing was learned)"))
    console.print()
    found = sum(report.redacted.values())
    kinds = f" ({', '.join(f'{kind} {count}' for kind, count in sorted(report.redacted.items()))})" if found else ""
    console.print(Text(f"secrets redacted before a model or the profile saw them: {found}{kinds}"))
    if report.leaked:
        console.print(Text("secrets reached the profile: see the turns marked above", style="bold red"))
    if report.unexpected:
        console.print(Text(f"decided otherwise than the file expects: turns {', '.join(map(str, report.unexpected))}"))
    skipped = report.count(Outcome.SKIPPED)
    if skipped:
        console.print(Text(f"skipped because memory was off: {skipped}", style="yellow"))
    if run_url:
        console.print(Text.assemble(f"Temporal Web UI: {run_url}", ("" if stays else f"  ({_GONE})", "dim")))


def report_json(report: DemoReport, *, model: str, run_url: str | None) -> dict[str, Any]:
    return {
        "title": report.title,
        "tenant": report.tenant,
        "user": report.user,
        "model": model,
        "simulated": model.split(":")[0] == "simulated",
        "ok": report.ok,
        "summary": {
            "turns": len(report.turns),
            **{outcome.value: report.count(outcome) for outcome in Outcome},
            "profile_version": report.profile.version,
            "seconds": round(report.seconds, 3),
            "unexpected_turns": report.unexpected,
            "leaked": report.leaked,
        },
        "redacted": dict(report.redacted),
        "web_ui": run_url,
        "profile": report.profile.body,
        "turns": [
            {
                "number": turn.number,
                "id": turn.turn_id,
                "outcome": turn.outcome,
                "reason": turn.reason,
                "flags": turn.flags,
                "version": turn.version,
                "expect": turn.expected,
                "redacted": dict(turn.redacted),
                "diff": turn.diff,
                "seconds": round(turn.seconds, 3),
            }
            for turn in report.turns
        ],
        "last_line": report.last_line,
    }
