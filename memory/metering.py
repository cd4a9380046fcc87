"""What models cost, per user and day: every reply is booked, and nothing more is asked once the day's tokens are spent."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Mapping
from datetime import UTC, date, datetime

import structlog

from memory import telemetry
from memory.model import metrics
from memory.model.errors import AfterturnError, SpendCapReached
from memory.model.scope import Scope
from memory.ports import ChatModel, ChatReply, ChatRequest, UsageLedger

MAX_REMEMBERED = 10_000
PRICED_TOKENS = 1_000_000
FRESH_S = 30.0
"""Other processes spend too: what is remembered of a user's day is asked for again after this long."""

Prices = Mapping[str, tuple[float, float, float]]
"""US dollars per million tokens by model: input, cached input, output."""

_log = structlog.get_logger("afterturn.metering")


class Meter:
    """Books usage and holds the cap. For one event loop.

    Args:
        cap: tokens (in and out) per user and day in UTC; 0: no cap. The call that crosses it is the last one of the day.
        prices: of models, for the metric of what they cost.
    """

    def __init__(self, ledger: UsageLedger, *, cap: int, prices: Prices | None = None) -> None:
        self._ledger = ledger
        self.cap = cap
        self._prices = prices or {}
        self._spent: OrderedDict[tuple[Scope, date], tuple[int, float]] = OrderedDict()
        self.unbooked = 0
        """Replies whose usage could not be written down."""

    def metered(self, model: ChatModel, scope: Scope) -> ChatModel:
        """``model``, on the account of this user."""
        return _MeteredModel(model, scope, self)

    async def is_spent(self, scope: Scope) -> bool:
        """Whether the user's tokens of today are spent. Raises StoreUnavailable."""
        if not self.cap:
            return False
        today = datetime.now(UTC).date()
        known = self._spent.get((scope, today))
        if known is None or time.monotonic() - known[1] > FRESH_S:
            spent = await self._ledger.spent(scope, today)
            self._remember(scope, today, spent)
        else:
            spent = known[0]
        return spent >= self.cap

    def measure(self, scope: Scope, model: str, stage: str, reply: ChatReply) -> None:
        """For whoever watches the process: tokens, and what they cost where the model has a price."""
        usage, tenant = reply.usage, scope.tenant
        cached = min(usage.cached_input_tokens, usage.input_tokens)
        directions = {"input": usage.input_tokens - cached, "cached": cached, "output": usage.output_tokens}
        for direction, tokens in directions.items():
            telemetry.count(metrics.MODEL_TOKENS, tokens, model=model, stage=stage, tenant=tenant, direction=direction)
        price = self._prices.get(model) or self._prices.get(reply.model)
        if price is not None:
            usd = sum(tokens * each for tokens, each in zip(directions.values(), price, strict=True)) / PRICED_TOKENS
            telemetry.count(metrics.MODEL_COST, usd, model=model, tenant=tenant)

    async def book(self, scope: Scope, stage: str, reply: ChatReply) -> None:
        """Write down what a reply cost. A ledger that is away does not void the reply: it is paid for."""
        now = datetime.now(UTC)
        try:
            spent = await self._ledger.add(scope, stage=stage, model=reply.model, usage=reply.usage, now=now)
        except AfterturnError as error:
            self.unbooked += 1
            _log.warning("usage_not_booked", tenant=scope.tenant, user=scope.user, stage=stage, error=error.message)
            known = self._spent.get((scope, now.date()), (0, 0.0))[0]
            spent = known + reply.usage.input_tokens + reply.usage.output_tokens
        self._remember(scope, now.date(), spent)

    def _remember(self, scope: Scope, day: date, spent: int) -> None:
        self._spent[(scope, day)] = (spent, time.monotonic())
        self._spent.move_to_end((scope, day))
        while len(self._spent) > MAX_REMEMBERED:
            self._spent.popitem(last=False)


class _MeteredModel(ChatModel):
    def __init__(self, model: ChatModel, scope: Scope, meter: Meter) -> None:
        self._model = model
        self._scope = scope
        self._meter = meter

    @property
    def name(self) -> str:
        return self._model.name

    @property
    def reasoning(self) -> bool:
        return self._model.reasoning

    async def complete(self, request: ChatRequest) -> ChatReply:
        """Also raises SpendCapReached, before anything is asked, and StoreUnavailable while the ledger is away."""
        if await self._meter.is_spent(self._scope):
            raise SpendCapReached(
                f"the user's {self._meter.cap} model tokens of today are spent (AFTERTURN_DAILY_TOKEN_CAP); more tomorrow (UTC)"
            )
        reply = await self._ask(request)
        await self._meter.book(self._scope, request.stage, reply)
        return reply

    async def _ask(self, request: ChatRequest) -> ChatReply:
        name, stage = self._model.name, request.stage
        result = "cancelled"
        with (
            telemetry.span("model call", {"model": name, "stage": stage}),
            telemetry.timed(metrics.MODEL_CALL_DURATION, model=name, stage=stage),
        ):
            try:
                reply = await self._model.complete(request)
                result = "ok"
            except Exception as error:
                result = telemetry.error_name(error)
                raise
            finally:
                telemetry.count(metrics.MODEL_CALLS, model=name, stage=stage, result=result)
            usage = reply.usage
            telemetry.note({"input_tokens": usage.input_tokens, "output_tokens": usage.output_tokens, "stop": reply.stop.value})
        self._meter.measure(self._scope, name, stage, reply)
        return reply
