"""The step of a rollout's gate: are the stores there, and as this version needs them?"""

from __future__ import annotations

from temporalio import activity

from activities.errors import translated
from activities.heartbeat import heartbeats
from memory.model.names import CHECK_STORES
from memory.ports import EventLog
from memory.profiles import Profiles


class RolloutGateActivities:
    def __init__(self, log: EventLog, profiles: Profiles) -> None:
        self._log = log
        self._profiles = profiles

    @activity.defn(name=CHECK_STORES)
    @translated
    async def check_stores(self) -> None:
        """Reads only.

        Raises (as ApplicationError): InvalidSettings, the database is at another schema; StoreUnavailable, one of them is away.
        """
        async with heartbeats():
            await self._log.ping()
            await self._profiles.ping()
