"""Running processes and their flags, in SQL."""

from __future__ import annotations

from memory.ports.service import Processes
from memory.stores.tables.engine import Database


class SqlProcesses(Processes):
    def __init__(self, database: Database) -> None:
        self._database = database
