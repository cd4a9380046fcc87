"""Notices on their way to streams, in SQL."""

from __future__ import annotations

from memory.ports.service import NoticeBox
from memory.stores.tables.engine import Database


class SqlNoticeBox(NoticeBox):
    def __init__(self, database: Database) -> None:
        self._database = database
