"""Token counts with tiktoken, without a download.

tiktoken fetches its tables from the network on first use. The same tables lie compressed in the package ``bpe-openai``;
they are read from there, checked against tiktoken's own hash and given to :class:`tiktoken.Encoding`. No file is written
and no variable of the environment is set, so read-only disks and processes that start at once are no special case.

Which encoding counts for ``provider:model``:

- ``openai:`` models that tiktoken knows: their own (``o200k_base``, ``cl100k_base``; ``o200k_harmony`` of gpt-oss differs
  from ``o200k_base`` in its special tokens only). ``exact`` is True.
- ``simulated``: ``o200k_base``, by definition. ``exact`` is True.
- all others (Anthropic publishes no tokenizer; compatible servers run any model): ``o200k_base``, ``exact`` is False. A
  budget is then a budget in these tokens; other tokenizers give up to about a third more for the same English text.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import importlib.util
import re
import threading
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from memory.model.errors import InvalidSettings

if TYPE_CHECKING:
    from tiktoken import Encoding

FALLBACK_ENCODING: Final = "o200k_base"
MAX_PIECE_CHARS: Final = 65_536
"""tiktoken's pattern fails (a panic, not an exception) on about a million blanks in a row, so long text is counted in pieces."""


@dataclass(frozen=True)
class _Table:
    sha256: str
    pattern: str


# Hash and pattern as in tiktoken_ext.openai_public; an encoding never changes, and a test compares them.
_TABLES: Final = {
    "o200k_base": _Table(
        "446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d",
        "|".join(
            (
                r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
                r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
                r"\p{N}{1,3}",
                r" ?[^\s\p{L}\p{N}]+[\r\n/]*",
                r"\s*[\r\n]+",
                r"\s+(?!\S)",
                r"\s+",
            )
        ),
    ),
    "cl100k_base": _Table(
        "223921b76ee99bde995b7ff738513eef100fb51d18c93597a113bcffe865b2a7",
        r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$|\s*[\r\n]|\s+(?!\S)|\s",
    ),
}
_SAME_TABLE: Final = {"o200k_harmony": "o200k_base"}

_CUT: Final = re.compile(r"(?<=\S)(?= [^\W\d_])")
"""In both patterns a word takes at most one blank before it, and nothing takes a blank after it."""
_CUT_WINDOW: Final = 2048

_load_lock = threading.Lock()
_loaded: dict[str, Encoding] = {}


@dataclass(frozen=True, slots=True)
class TiktokenCounter:
    """Counts of one encoding; its table is loaded at the first count, once per process. Safe to use from threads."""

    name: str
    exact: bool

    def count(self, text: str) -> int:
        """Tokens of the text, all of it ordinary: ``<|endoftext|>`` is text too, a lone surrogate counts as U+FFFD.

        Up to 65,536 characters this is tiktoken's own count. Longer text is counted in pieces that end where no token
        reaches across; text without such a place (one endless run) may count a few tokens per piece too many.

        Raises:
            InvalidSettings: the tables are not installed or damaged.
        """
        encoding = _encoding(self.name)
        return sum(len(encoding.encode_ordinary(piece)) for piece in _pieces(text))


def counter_for(provider: str, model: str) -> TiktokenCounter:
    """The counter for a model of a provider; loads nothing yet.

    Args:
        provider: ``openai``, ``simulated``, …
        model: the provider's name of the model; may be a path whose last part counts (``openai/gpt-oss-20b``).
    """
    if provider == "simulated":
        return TiktokenCounter(FALLBACK_ENCODING, exact=True)
    if provider == "openai":
        from tiktoken.model import encoding_name_for_model

        try:
            known = encoding_name_for_model(model.rpartition("/")[2])
        except KeyError:
            known = ""
        known = _SAME_TABLE.get(known, known)
        if known in _TABLES:
            return TiktokenCounter(known, exact=True)
    return TiktokenCounter(FALLBACK_ENCODING, exact=False)


def _encoding(name: str) -> Encoding:
    encoding = _loaded.get(name)
    if encoding is None:
        with _load_lock:
            encoding = _loaded.get(name)
            if encoding is None:
                encoding = _loaded[name] = _load(name)
    return encoding


def _load(name: str) -> Encoding:
    from tiktoken import Encoding

    table = _TABLES[name]
    # Not importlib.resources: it would import the package and with it 74 MB of native code that is not used here.
    spec = importlib.util.find_spec("bpe_openai")
    if spec is None or not spec.submodule_search_locations:
        raise InvalidSettings("the tokenizer tables are missing: install the package bpe-openai")
    path = Path(spec.submodule_search_locations[0]) / "data" / f"{name}.tiktoken.gz"
    try:
        data = gzip.decompress(path.read_bytes())
    except (OSError, EOFError, zlib.error) as error:
        raise InvalidSettings(f"cannot read {path} ({type(error).__name__}): install bpe-openai again") from None
    if hashlib.sha256(data).hexdigest() != table.sha256:
        raise InvalidSettings(f"{path} is not the {name} table of tiktoken: install bpe-openai again")
    ranks = {base64.b64decode(token): int(rank) for token, rank in (line.split() for line in data.splitlines())}
    return Encoding(name, pat_str=table.pattern, mergeable_ranks=ranks, special_tokens={})


def _pieces(text: str) -> Iterator[str]:
    """The text in pieces of at most MAX_PIECE_CHARS, cut before a blank between two words where there is one."""
    start = 0
    while len(text) - start > MAX_PIECE_CHARS:
        end = start + MAX_PIECE_CHARS
        tail = text[end - _CUT_WINDOW : end]
        for cut in _CUT.finditer(tail):
            end = start + MAX_PIECE_CHARS - _CUT_WINDOW + cut.start()
        yield text[start:end]
        start = end
    yield text[start:]
