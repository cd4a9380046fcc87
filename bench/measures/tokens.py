"""Tokens to and from the memory model per turn, by stage and mode, on a real conversation that is not part of the repository.

The domain services run directly (gate, consolidation) with the scripted model: UPDATE at every third turn, one bullet of about
fifteen words each. Tokens are those of ``o200k_base``; text and reply schema count, a provider's framing does not.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

from bench.results import BenchError, Reach, Row, skipped
from bench.scripted_model import EveryNth, ScriptedModel, StageTokens, total
from memory.consolidation import Consolidator, Rules
from memory.gate import ask_gate
from memory.llm.tokens import counter_for
from memory.model.directory import DEFAULT_BUDGET_TOKENS, ConsolidationMode
from memory.model.profile import EMPTY_PROFILE, Profile
from memory.model.turn import Turn

DATA: Final = Path(__file__).parents[3] / "shared" / "data" / "locomo-dev.json"
CONVERSATION: Final = "conv-41"
EXCHANGES: Final = 150
UPDATE_EVERY: Final = 3
BETWEEN_TURNS: Final = timedelta(minutes=1)

COMPARED_IN: Final = "a comparable system, gate + rewrite: 3,576 in; two others 8,340 and 2,040"
COMPARED_OUT: Final = "a comparable system, gate + rewrite: 297 out; two others 23 and 48"
MOST_IN: Final = Reach(most=1800)
MOST_OUT: Final = {ConsolidationMode.REWRITE: Reach(most=300), ConsolidationMode.EDITS: Reach(most=40)}


@dataclass(frozen=True, slots=True)
class Spent:
    """What one mode cost over all turns."""

    turns: int
    updates: int
    stages: Mapping[str, StageTokens]
    profile: Profile


async def measure() -> list[Row]:
    if not DATA.exists():
        why = f"{DATA.name} is not at {DATA.parent}"
        return [
            row
            for mode in ConsolidationMode
            for row in (
                skipped(f"tokens in per turn, {mode}", "tokens", COMPARED_IN, why, MOST_IN),
                skipped(f"tokens out per turn, {mode}", "tokens", COMPARED_OUT, why, MOST_OUT[mode]),
                skipped(f"input a prompt cache can serve, {mode}", "share", "all input tokens", why),
            )
        ]
    turns = read_turns(DATA, CONVERSATION, EXCHANGES)
    if len(turns) < EXCHANGES:
        raise BenchError(f"{CONVERSATION} has only {len(turns)} exchanges")
    rows: list[Row] = []
    for mode in ConsolidationMode:
        rows += rows_of(mode, await spend(turns, mode))
    return rows


async def spend(
    turns: Sequence[Turn], mode: ConsolidationMode, *, update_every: int = UPDATE_EVERY, max_tokens: int = DEFAULT_BUDGET_TOKENS
) -> Spent:
    """Run gate and consolidation over these turns, one by one, as the pipeline does.

    Raises BenchError when the run was not the one that is to be measured: a repair, a refusal, a lost bullet.
    """
    counter = counter_for("simulated", "scripted")
    model = ScriptedModel(EveryNth(update_every), counter=counter)
    rules = Rules(
        mode=mode,
        max_tokens=max_tokens,
        privacy_scrub=False,
        loss_guard_max_lost_fraction=0.5,
        loss_guard_min_bullets=2,
        timeout_s=60.0,
    )
    profile, updates = EMPTY_PROFILE, 0
    for turn in turns:
        decision = await ask_gate(model, profile, [turn], timeout_s=60.0)
        if decision.flags:
            raise BenchError(f"the gate could not read its reply: {', '.join(decision.flags)}")
        if not decision.update:
            continue
        result = await Consolidator(model, counter, rules).run(profile, [turn], now=turn.occurred_at)
        if result.profile is None or result.flags:
            raise BenchError(f"consolidation went another way: kept {result.kept}, flags {', '.join(result.flags) or 'none'}")
        profile, updates = result.profile, updates + 1
    if profile.bullet_count != updates:
        raise BenchError(f"{updates} bullets were added and the profile has {profile.bullet_count}")
    return Spent(len(turns), updates, model.spent, profile)


def rows_of(mode: ConsolidationMode, spent: Spent) -> list[Row]:
    turns, whole = spent.turns, total(list(spent.stages.values()))

    def per_turn(attribute: str) -> dict[str, float]:
        return {stage: getattr(one, attribute) / turns for stage, one in spent.stages.items()}

    def share(tokens: int) -> float:
        return tokens / whole.input

    return [
        Row(
            f"tokens in per turn, {mode}",
            whole.input / turns,
            "tokens",
            COMPARED_IN,
            MOST_IN,
            details={
                "by_stage": per_turn("input"),
                "by_part": {name: size / turns for name, size in whole.by_part.items()},
                "per_call": {stage: one.input / one.calls for stage, one in spent.stages.items()},
                "turns": turns,
                "updates": spent.updates,
            },
        ),
        Row(
            f"tokens out per turn, {mode}",
            whole.output / turns,
            "tokens",
            COMPARED_OUT,
            MOST_OUT[mode],
            details={"by_stage": per_turn("output")},
        ),
        Row(
            f"input a prompt cache can serve, {mode}",
            share(whole.cached_by_mark),
            "share",
            "all input tokens",
            note="up to the last cacheable mark that is equal to the request before it of the same user and stage",
            details={
                "by_stage": {stage: one.cached_by_mark / one.input for stage, one in spent.stages.items()},
                "by_longest_common_prefix": share(whole.cached_by_prefix),
                "by_prefix_of_1024_tokens_or_more": share(whole.cached_from_minimum),
            },
        ),
    ]


def read_turns(path: Path, conversation: str, limit: int) -> list[Turn]:
    """The first exchanges of a LoCoMo conversation. Who speaks first in it is the user; an exchange begins with the user.

    What the other one says at the start of a session, before the user has spoken, belongs to no exchange. Photos count by their
    captions. Raises BenchError for a file of another form.
    """
    try:
        content = json.loads(path.read_text("utf-8"))
        talk: dict[str, Any] = next(one["conversation"] for one in content if one["sample_id"] == conversation)
        return turns_of(talk)[:limit]
    except (OSError, ValueError, KeyError, TypeError, StopIteration) as error:
        raise BenchError(f"{path.name} does not hold {conversation} in the form of LoCoMo ({type(error).__name__})") from None


def turns_of(talk: Mapping[str, Any]) -> list[Turn]:
    """``talk``: ``session_<n>`` lists of ``{"speaker", "text", "blip_caption"?}`` and ``session_<n>_date_time`` beside them."""
    numbers = sorted(int(key.split("_")[1]) for key in talk if key.startswith("session_") and not key.endswith("_date_time"))
    user = talk[f"session_{numbers[0]}"][0]["speaker"]
    turns: list[Turn] = []
    for number in numbers:
        at = datetime.strptime(talk[f"session_{number}_date_time"], "%I:%M %p on %d %B, %Y").replace(tzinfo=UTC)
        said: list[tuple[list[str], list[str]]] = []
        for line in talk[f"session_{number}"]:
            caption = line.get("blip_caption")
            text = line["text"] + (f" [photo: {caption}]" if caption else "")
            if line["speaker"] == user:
                if not said or said[-1][1]:
                    said.append(([], []))
                said[-1][0].append(text)
            elif said:
                said[-1][1].append(text)
        for position, (asked, answered) in enumerate(said):
            turns.append(
                Turn(
                    turn_id=f"{number}-{position}",
                    user_text="\n".join(asked),
                    assistant_text="\n".join(answered) or None,
                    occurred_at=at + position * BETWEEN_TURNS,
                    conversation_id=str(number),
                    allow_user_memory=True,
                )
            )
    return turns
