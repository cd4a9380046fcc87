"""How often a caller may ask, in one process.

Only who has proved who they are is counted. Guessing tokens is hopeless, and whoever counts the failures of an address locks out
everybody behind the same proxy.
"""

from __future__ import annotations

import math
import time
from collections import OrderedDict, deque
from dataclasses import dataclass
from typing import Final

from limits import RateLimitItem, RateLimitItemPerMinute
from limits.aio.storage import MemoryStorage
from limits.aio.strategies import MovingWindowRateLimiter

from api.problems import TooMany

MAX_KEYS: Final = 20_000


class _Windows(MemoryStorage):
    """Moments of the last minute by key, for as many keys as fit.

    The library's own store looks through all keys, in tasks and threads, after every request.
    """

    def __init__(self) -> None:
        super().__init__()
        self._moments: OrderedDict[str, deque[float]] = OrderedDict()

    async def acquire_entry(self, key: str, limit: int, expiry: int, amount: int = 1) -> bool:
        moments = self._current(key, expiry)
        if len(moments) + amount > limit:
            return False
        moments.extend([time.time()] * amount)
        return True

    async def get_moving_window(self, key: str, limit: int, expiry: int) -> tuple[float, int]:
        moments = self._current(key, expiry)
        return (moments[0] if moments else time.time()), len(moments)

    def _current(self, key: str, expiry: int) -> deque[float]:
        moments = self._moments.setdefault(key, deque())
        self._moments.move_to_end(key)
        while len(self._moments) > MAX_KEYS:
            self._moments.popitem(last=False)
        old = time.time() - expiry
        while moments and moments[0] <= old:
            moments.popleft()
        return moments


@dataclass(frozen=True, slots=True)
class Rate:
    """Where a caller stands after a request; for the headers of the answer."""

    limit: int
    remaining: int
    reset_s: int

    @property
    def headers(self) -> dict[str, str]:
        """As draft-ietf-httpapi-ratelimit-headers has them."""
        return {
            "RateLimit-Policy": f'"caller";q={self.limit};w=60',
            "RateLimit": f'"caller";r={self.remaining};t={self.reset_s}',
        }


class Rates:
    """``per_minute``: 0: no limit."""

    def __init__(self, per_minute: int) -> None:
        self._caller = RateLimitItemPerMinute(per_minute) if per_minute else None
        self._limiter = MovingWindowRateLimiter(_Windows())

    async def count(self, key: str) -> Rate | None:
        """Count a request of this caller. Raises TooMany."""
        if self._caller is None:
            return None
        allowed = await self._limiter.hit(self._caller, key)
        rate = await self._rate(self._caller, key)
        if not allowed:
            raise TooMany(
                f"more than {rate.limit} requests in a minute; come back in {rate.reset_s} s",
                retry_after_s=rate.reset_s,
                headers=rate.headers,
            )
        return rate

    async def _rate(self, item: RateLimitItem, *key: str) -> Rate:
        stats = await self._limiter.get_window_stats(item, *key)
        return Rate(item.amount, max(0, stats.remaining), max(1, math.ceil(stats.reset_time - time.time())))
