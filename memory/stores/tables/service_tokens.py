"""Service tokens in SQL."""

from __future__ import annotations

from memory.ports.service import ServiceTokens
from memory.stores.tables.engine import Database


class SqlServiceTokens(ServiceTokens):
    def __init__(self, database: Database) -> None:
        self._database = database
