"""From a window's events to checked items: one model call for all categories, and what to do when its reply is not usable."""

from memory.extraction.extractor import MAX_MODEL_CALLS, ExtractionResult, Extractor
from memory.extraction.known import load_known
from memory.prompts.extraction import Known

__all__ = ["MAX_MODEL_CALLS", "ExtractionResult", "Extractor", "Known", "load_known"]
