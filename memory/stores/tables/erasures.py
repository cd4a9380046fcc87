"""Receipts of erasures, and the deletion of a user's rows."""

from __future__ import annotations

from memory.ports.service import ErasureLedger
from memory.stores.tables.engine import Database


class SqlErasures(ErasureLedger):
    def __init__(self, database: Database) -> None:
        self._database = database
