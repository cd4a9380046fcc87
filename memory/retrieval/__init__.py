"""Search over what is remembered: facts and other rows with vectors, and the recorded messages."""

from memory.retrieval.documents import Documents
from memory.retrieval.events import EventIndex, FoundEvent
from memory.retrieval.facts import FactSearch, FoundFact
from memory.retrieval.reconcile import Cursor, ReconcileReport
from memory.retrieval.search_index import SearchIndex

__all__ = ["Cursor", "Documents", "EventIndex", "FactSearch", "FoundEvent", "FoundFact", "ReconcileReport", "SearchIndex"]
