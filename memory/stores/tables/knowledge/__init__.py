"""Knowledge tables in SQL: rows of all dynamic tables in one table of slots, and a catalogue that says what lies where."""

from memory.stores.tables.knowledge.store import SqlKnowledge

__all__ = ["SqlKnowledge"]
