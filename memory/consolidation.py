"""Consolidation: the old profile and the latest turns go to the memory model; what comes back is checked before it counts.

    ask → parse (one repair) → clean → loss guard (one explanation) → stamp → scrub (optional) → budget (condense, cut)

Nothing here knows Temporal, a store or a provider. A model's reply is untrusted input: whatever it says, the result is the old
profile, or a complete new one that parses, fits the budget and lost nothing unexplained.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from functools import cache
from typing import TypedDict

from memory import prompts, telemetry
from memory.model import metrics
from memory.model.budget import check_condensed, cut_to_budget, fits
from memory.model.directory import ConsolidationMode
from memory.model.echo import Instructions, drop_echoes
from memory.model.edits import apply_edits, parse_edits
from memory.model.errors import MalformedOutput, ModelError, ModelRejected
from memory.model.grounding import find_invention
from memory.model.loss_guard import Loss, ends_early, find_core_loss, find_loss, find_removal
from memory.model.profile import Profile, parse_body, render_body
from memory.model.recent import stamp_recent_topics
from memory.model.redaction import redact
from memory.model.reply import Clean, Noop, parse_profile_reply, parse_scrub_reply
from memory.model.turn import Turn
from memory.ports import ChatModel, ChatReply, ChatRequest, StopReason, TokenCounter, Usage

_LONG_CHARS = 100_000
"""Counting and cutting more than this takes long enough to be done in a thread."""

CONDENSE_TO = 0.9
"""Over budget, the model is asked to condense toward this share of the cap."""


@dataclass(frozen=True, slots=True)
class Rules:
    """The settings that one consolidation follows."""

    mode: ConsolidationMode
    max_tokens: int
    privacy_scrub: bool
    loss_guard_max_lost_fraction: float
    loss_guard_min_bullets: int
    timeout_s: float


@dataclass(frozen=True, slots=True)
class Consolidation:
    """``profile``: the new profile, or None when the old one stays. ``kept``: it stays because of a failure, and which."""

    profile: Profile | None = field(repr=False)
    kept: str | None
    flags: tuple[str, ...]
    usage: dict[str, Usage]


async def for_prompt(profile: Profile, counter: TokenCounter, max_tokens: int, today: date) -> Profile:
    """The profile as a prompt may hold it: a user's own save can be a megabyte, a model's context cannot.

    Up to twice the budget it goes whole, so that the model can condense it; beyond, it is cut by rule first.
    """

    def bounded() -> Profile:
        if fits(profile, counter.count, 2 * max_tokens):
            return profile
        return cut_to_budget(profile, counter.count, 2 * max_tokens, today=today).with_truncated(False)

    size = sum(len(line) for _, bullets in profile.items() for bullet in bullets for line in bullet.lines)
    return await asyncio.to_thread(bounded) if size > _LONG_CHARS else bounded()


class Consolidator:
    """One consolidation at work; collects flags and usage."""

    def __init__(self, model: ChatModel, counter: TokenCounter, rules: Rules) -> None:
        self._model = model
        self._counter = counter
        self._rules = rules
        self._flags: list[str] = []
        self._usage: dict[str, Usage] = {}

    async def run(self, old: Profile, turns: Sequence[Turn], *, now: datetime) -> Consolidation:
        """Consolidate ``turns`` (oldest first) into ``old``. ``now``: the time of processing, to judge what is stale.

        Raises:
            ModelError: a call failed in a way that a retry of the whole may cure, or (ModelRejected) that none will.
        """
        if all(turn.is_empty for turn in turns):
            return self._end(None, None)
        shown = await for_prompt(old, self._counter, self._rules.max_tokens, now.date())
        if shown != old:
            self._flag("input_cut")
            old = shown
        request = prompts.consolidate_request(
            old,
            turns,
            mode=self._rules.mode,
            max_tokens=self._rules.max_tokens,
            now=now,
            timeout_s=self._rules.timeout_s,
            reasoning=self._model.reasoning,
        )
        try:
            new, reply = await self._ask(old, request)
            if new is None:
                return self._end(None, None)
            new = self._cleaned(old, new, turns)
            loss = self._loss(old, new, turns, now)
            if loss is not None:
                self._flag("loss_guard")
                telemetry.count(metrics.LOSS_GUARD, result="sent_back")
                new, _ = await self._ask(old, prompts.loss_request(request, reply.text, loss))
                if new is None:
                    return self._end(None, None)
                new = self._cleaned(old, new, turns)
                if self._loss(old, new, turns, now) is not None:
                    telemetry.count(metrics.LOSS_GUARD, result="kept")
                    return self._end(None, "loss_guard")
            new = stamp_recent_topics(old, new, [turn.occurred_at for turn in turns])
            if _same(old, new):
                return self._end(None, None)
            if self._rules.privacy_scrub:
                scrubbed = await self._scrub(new)
                if scrubbed is None:
                    return self._end(None, "privacy_scrub")
                new = scrubbed
        except MalformedOutput:
            return self._end(None, "malformed_output")
        new = await self._within_budget(old, new, turns, now)
        return self._end(None if _same(old, new) else new, None)

    # ---------------------------------------------------------------------------------------------------------- model calls

    async def _call(self, request: ChatRequest) -> ChatReply:
        reply = await self._model.complete(request)
        self._usage[request.stage] = self._usage[request.stage] + reply.usage if request.stage in self._usage else reply.usage
        if reply.stop is StopReason.REFUSED:
            raise ModelRejected(f"{self._model.name} refused the {request.stage} request")
        return reply

    async def _ask(self, old: Profile, request: ChatRequest) -> tuple[Profile | None, ChatReply]:
        """One reply and, when it cannot be used, one repair attempt that says what was wrong. None: NOOP.

        Raises MalformedOutput when the repair cannot be used either.
        """
        reply = await self._call(request)
        try:
            return self._read(old, reply), reply
        except MalformedOutput as error:
            self._flag("repaired")
            if reply.stop is StopReason.LENGTH:
                # The text is cut off, not wrong: the same question with more room.
                again = prompts.with_more_room(request)
            else:
                again = prompts.repair_request(request, reply.text, error.message)
            second = await self._call(again)
            return self._read(old, second), second

    def _read(self, old: Profile, reply: ChatReply) -> Profile | None:
        if reply.stop is not StopReason.END:
            raise MalformedOutput("the reply was cut off before its end")
        if self._rules.mode is ConsolidationMode.EDITS:
            edits = parse_edits(reply.text)
            return None if isinstance(edits, Noop) else apply_edits(old, edits)
        parsed = parse_profile_reply(reply.text)
        if isinstance(parsed, Noop):
            return None
        if ends_early(old, parsed):
            raise MalformedOutput("the reply ends within a bullet of the profile and what follows it is missing; it looks cut off")
        return parsed

    async def _scrub(self, profile: Profile) -> Profile | None:
        """The second pass over a changed profile; None when it cannot vouch for it."""
        request = prompts.scrub_request(profile, timeout_s=self._rules.timeout_s, reasoning=self._model.reasoning)
        reply = await self._call(request)
        if reply.stop is not StopReason.END:
            return None
        try:
            verdict = parse_scrub_reply(reply.text)
        except MalformedOutput:
            return None
        if isinstance(verdict, Clean):
            return profile
        # The pass may take away and rephrase, but neither add nor take away much: what it cuts by mistake nobody would notice.
        if find_invention(profile, verdict) is not None or ends_early(profile, verdict):
            return None
        if find_removal(profile, verdict, **self._thresholds) is not None:
            return None
        self._flag("scrubbed")
        return self._redacted(verdict)

    async def _within_budget(self, old: Profile, profile: Profile, turns: Sequence[Turn], now: datetime) -> Profile:
        """Condense by the model, then cut by rule. A failing condense call is no reason to lose the rewrite: the rule cuts."""
        count, cap = self._counter.count, self._rules.max_tokens
        profile = Profile(profile.sections)
        if fits(profile, count, cap):
            return profile
        request = prompts.condense_request(
            profile,
            target_tokens=int(cap * CONDENSE_TO),
            timeout_s=self._rules.timeout_s,
            reasoning=self._model.reasoning,
        )
        try:
            condensed = self._condensed(old, profile, turns, await self._call(request))
        except ModelError:
            self._flag("condense_failed")
            condensed = None
        if condensed is not None:
            self._flag("condensed")
            profile = condensed
        if fits(profile, count, cap):
            return profile
        self._flag("truncated")
        return cut_to_budget(profile, count, cap, today=now.date())

    def _condensed(self, old: Profile, before: Profile, turns: Sequence[Turn], reply: ChatReply) -> Profile | None:
        """The condensed profile, or None when the cut by rule is safer: it takes Identity and Communication Preferences last."""
        if reply.stop is not StopReason.END:
            return None
        try:
            parsed = parse_profile_reply(reply.text)
        except MalformedOutput:
            return None
        if isinstance(parsed, Noop):
            return None
        parsed = self._redacted(parsed)
        if check_condensed(before, parsed, self._counter.count, self._rules.max_tokens) is not None:
            return None
        # Against the old profile too: half of the half that the rewrite kept would be too little.
        for earlier, said in ((before, ""), (old, _said(turns))):
            if find_core_loss(earlier, parsed, said, **self._thresholds) is not None:
                self._flag("condense_refused")
                return None
        return parsed

    # --------------------------------------------------------------------------------------------------------------- checks

    def _redacted(self, profile: Profile) -> Profile:
        body = render_body(profile)
        redacted = redact(body)
        if redacted.text == body:
            return profile
        self._flag("redacted")
        return parse_body(redacted.text)

    def _cleaned(self, old: Profile, new: Profile, turns: Sequence[Turn]) -> Profile:
        """Without secrets and without text of the prompts."""
        without = drop_echoes(old, new, _said(turns), _instructions())
        if without is not new:
            self._flag("prompt_echo")
        return self._redacted(without)

    def _loss(self, old: Profile, new: Profile, turns: Sequence[Turn], now: datetime) -> Loss | None:
        return find_loss(old, new, _said(turns), today=now.date(), **self._thresholds)

    @property
    def _thresholds(self) -> _Thresholds:
        return {
            "max_lost_fraction": self._rules.loss_guard_max_lost_fraction,
            "min_bullets": self._rules.loss_guard_min_bullets,
        }

    def _flag(self, flag: str) -> None:
        if flag not in self._flags:
            self._flags.append(flag)

    def _end(self, profile: Profile | None, kept: str | None) -> Consolidation:
        return Consolidation(profile, kept, tuple(self._flags), self._usage)


class _Thresholds(TypedDict):
    max_lost_fraction: float
    min_bullets: int


@cache
def _instructions() -> Instructions:
    return Instructions(prompts.all_prompt_texts())


def _said(turns: Sequence[Turn]) -> str:
    """The user's words; those of the assistant explain nothing."""
    return "\n".join(turn.user_text or "" for turn in turns)


def _same(old: Profile, new: Profile) -> bool:
    """The truncation mark alone is no change worth a version."""
    return old.sections == new.sections
