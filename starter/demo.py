"""Plays a conversation turn by turn, as an orchestrator would hand it over, and says what the pipeline made of every turn.

What is shown is what is stored: outcomes come from the turn ledger, profiles from the object store.
"""

from __future__ import annotations

import asyncio
import difflib
from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field

from memory.model.errors import MemoryUnavailable
from memory.model.profile import EMPTY_MARK
from memory.model.redaction import redact
from memory.model.scope import Scope
from memory.model.turn import Outcome, Turn
from memory.ports import EventLog, TurnSummary
from starter.client import MemoryClient
from starter.conversations import Conversation, ConversationTurn
from starter.views import LoadedMemory, ProfileView, Receipt, ReceiptStatus

TURN_TIMEOUT_S = 120.0
NOT_RECORDED = frozenset({ReceiptStatus.REFUSED, ReceiptStatus.LOST, ReceiptStatus.SKIPPED, ReceiptStatus.DUPLICATE})
_FIRST_POLL_S = 0.01
_MAX_POLL_S = 0.1
_DECISIONS = {"update": Outcome.UPDATED, "noop": Outcome.NOOP}


@dataclass(frozen=True, slots=True)
class TurnReport:
    """What became of one turn. ``diff``: see :func:`unified`.

    ``redacted``: secrets found in the turn's text, by kind. ``leaked``: how many secrets named by the file are in the profile.
    """

    number: int
    turn_id: str
    user_text: str | None = field(repr=False)
    assistant_text: str | None = field(repr=False)
    loaded: bool
    outcome: Outcome
    reason: str | None
    flags: tuple[str, ...]
    version: int
    diff: tuple[str, ...] = field(repr=False)
    expected: str | None
    as_expected: bool
    redacted: Mapping[str, int]
    leaked: int
    run_id: str | None
    seconds: float


@dataclass(frozen=True, slots=True)
class DemoReport:
    """The whole play. ``ok``: every turn reached the profile or needed not to, and no secret did."""

    title: str
    tenant: str
    user: str
    turns: tuple[TurnReport, ...]
    profile: ProfileView
    redacted: Mapping[str, int]
    seconds: float

    def count(self, outcome: Outcome) -> int:
        return sum(turn.outcome is outcome for turn in self.turns)

    @property
    def leaked(self) -> int:
        return sum(turn.leaked for turn in self.turns)

    @property
    def unexpected(self) -> tuple[int, ...]:
        """Numbers of the turns that were decided otherwise than the file expects."""
        return tuple(turn.number for turn in self.turns if not turn.as_expected)

    @property
    def ok(self) -> bool:
        return not self.count(Outcome.KEPT) and not self.count(Outcome.SKIPPED) and not self.leaked

    @property
    def last_line(self) -> str:
        return (
            f"demo: {len(self.turns)} turns, {self.count(Outcome.UPDATED)} updated, {self.count(Outcome.NOOP)} noop, "
            f"{self.count(Outcome.KEPT)} kept, profile v{self.profile.version}, {self.seconds:.1f} s"
        )


class Demo:
    """One play of a conversation.

    Args:
        client: as an orchestrator would hold it.
        log: the turn ledger, where outcomes are read.
        scope: whose memory; the caller makes sure that it is a fresh one.
        language_model: the model that "answered", as ``provider:model``; None: the deployment's.
    """

    def __init__(
        self,
        conversation: Conversation,
        client: MemoryClient,
        log: EventLog,
        scope: Scope,
        *,
        language_model: str | None = None,
        turn_timeout_s: float = TURN_TIMEOUT_S,
    ) -> None:
        self._conversation = conversation
        self._client = client
        self._log = log
        self._scope = scope
        self._model = language_model
        self._timeout_s = turn_timeout_s

    async def play(self) -> AsyncIterator[TurnReport]:
        """One report per turn, as soon as the turn is through.

        Raises MemoryUnavailable when a turn cannot be handed over or does not finish in time.
        """
        body = (await self._client.get_profile(self._scope)).body
        for number, spoken in enumerate(self._conversation.turns, start=1):
            report, body = await self._one(number, spoken, body)
            yield report

    async def _one(self, number: int, spoken: ConversationTurn, before: str) -> tuple[TurnReport, str]:
        clock = asyncio.get_running_loop().time
        started = clock()
        loaded = await self._client.load(self._scope, allow_user_memory=True)
        turn = self._turn(number, spoken)
        receipt = await self._client.after_answer(self._scope, turn)
        _check_receipt(number, receipt)
        stored = await self._finished(number, turn.turn_id)
        profile = await self._client.get_profile(self._scope)
        return self._report(number, spoken, loaded, stored, before, profile, clock() - started), profile.body

    def _turn(self, number: int, spoken: ConversationTurn) -> Turn:
        return Turn(
            turn_id=spoken.id or f"turn-{number:04d}",
            user_text=spoken.user,
            assistant_text=spoken.assistant,
            occurred_at=spoken.at,
            conversation_id=self._conversation.title[:100],
            language_model=self._model,
            allow_user_memory=True,
        )

    async def _finished(self, number: int, turn_id: str) -> TurnSummary:
        clock = asyncio.get_running_loop().time
        deadline = clock() + self._timeout_s
        pause = _FIRST_POLL_S
        while True:
            newest = await self._log.summaries(scope=self._scope, limit=1)
            if newest and newest[0].turn_id == turn_id and newest[0].outcome is not None:
                return newest[0]
            if clock() > deadline:
                raise MemoryUnavailable(
                    f"turn {number} was recorded but has not been processed within {self._timeout_s:g} s; "
                    f"see the workflow {self._scope.post_answer_workflow_id}"
                )
            await asyncio.sleep(pause)
            pause = min(pause * 1.5, _MAX_POLL_S)

    def _report(
        self,
        number: int,
        spoken: ConversationTurn,
        loaded: LoadedMemory,
        stored: TurnSummary,
        before: str,
        profile: ProfileView,
        seconds: float,
    ) -> TurnReport:
        assert stored.outcome is not None  # noqa: S101
        expected = _DECISIONS.get(spoken.expect or "")
        return TurnReport(
            number=number,
            turn_id=stored.turn_id,
            user_text=spoken.user,
            assistant_text=spoken.assistant,
            loaded=bool(loaded.body),
            outcome=stored.outcome,
            reason=stored.reason,
            flags=stored.flags,
            version=profile.version,
            diff=unified(before, profile.body),
            expected=spoken.expect,
            as_expected=expected is None or expected is stored.outcome,
            redacted=secrets_in(spoken.user, spoken.assistant),
            leaked=leaks(profile.body, self._conversation.secrets),
            run_id=stored.run_id,
            seconds=seconds,
        )


def _check_receipt(number: int, receipt: Receipt) -> None:
    # On a busy machine a turn may miss the budget of the answering path; it is recorded a moment later then.
    if receipt.status not in NOT_RECORDED:
        return
    why = receipt.reason or ", ".join(receipt.reasons) or "no reason given"
    raise MemoryUnavailable(f"turn {number} was not recorded ({receipt.status.value}): {why}")


def unified(before: str, after: str) -> tuple[str, ...]:
    """Lines of a unified diff of two bodies: the bullets that changed, each under its heading, without file names."""
    old, new = before.splitlines(), after.splitlines()
    context = len(old) + len(new)
    lines: list[str] = []
    heading = shown = ""
    for line in list(difflib.unified_diff(old, new, lineterm="", n=context))[3:]:
        text = line[1:].strip()
        if text.startswith("#"):
            heading = text
        elif line[0] in "+-" and text and text != EMPTY_MARK:
            if heading != shown:
                lines.append(f" {heading}")
                shown = heading
            lines.append(line)
    return tuple(lines)


def secrets_in(*texts: str | None) -> Mapping[str, int]:
    """Secrets that redaction finds in these texts, by kind."""
    found: Counter[str] = Counter()
    for text in texts:
        if text:
            found.update(redact(text).kinds)
    return dict(found)


def leaks(body: str, secrets: Sequence[str]) -> int:
    """How many of these secrets stand in a profile, however they are spaced."""
    squeezed = "".join(body.split())
    return sum("".join(secret.split()) in squeezed for secret in secrets)
