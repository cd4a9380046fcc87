"""What an operator reads in the Temporal Web UI about a knowledge loop, without any user text: names of tools, codes, counts."""

from __future__ import annotations

from memory.model.knowledge_steps import LoopLine, LoopProgress

MAX_LINES = 100
"""Steps of a run that are kept for the query and the view."""
_SHOWN = 20


def details_markdown(operation: str, doing: str, progress: LoopProgress, lines: list[LoopLine]) -> str:
    """Markdown for ``workflow.set_current_details``: what it does, its last steps, the totals."""
    parts = [f"**{operation}** — {doing}"]
    if lines:
        rows = [
            f"| {line.step} | {', '.join(line.calls) or (f'_{line.problem}_' if line.problem else 'answer')} | {line.tokens} |"
            for line in lines[-_SHOWN:]
        ]
        parts.append("\n".join(["| step | calls | tokens |", "|---|---|---|", *rows]))
    parts.append(
        f"steps {progress.step}, tokens in {progress.input_tokens}, out {progress.output_tokens}, "
        f"worked {progress.worked_s:.1f} s, runs {progress.runs}"
    )
    return "\n\n".join(parts)
