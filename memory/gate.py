"""The gate: one cheap model call that says whether a turn taught something lasting about the user."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from memory import prompts
from memory.model.profile import Profile
from memory.model.reply import parse_gate
from memory.model.turn import Turn
from memory.ports import ChatModel, StopReason, Usage


@dataclass(frozen=True, slots=True)
class GateDecision:
    """``flags`` says why it is UPDATE although the model did not say so."""

    update: bool
    flags: tuple[str, ...]
    usage: Usage


async def ask_gate(model: ChatModel, profile: Profile, turns: Sequence[Turn], *, timeout_s: float) -> GateDecision:
    """Only an explicit NOOP skips the rewrite; an empty, cut-off, refused or unreadable reply is UPDATE.

    Raises:
        ModelError: the call itself failed; the caller counts that as UPDATE too, after its retries.
    """
    reply = await model.complete(prompts.gate_request(profile, turns, reasoning=model.reasoning, timeout_s=timeout_s))
    answer = parse_gate(reply.text)
    if reply.stop is StopReason.REFUSED:
        return GateDecision(True, ("gate_refused",), reply.usage)
    if answer is None:
        flag = "gate_cut_off" if reply.stop is StopReason.LENGTH else "gate_unreadable"
        return GateDecision(True, (flag,), reply.usage)
    return GateDecision(answer, (), reply.usage)
