"""Token counts: tiktoken's own, offline, for any text."""

from __future__ import annotations

import importlib
import random
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tiktoken import Encoding
from tiktoken_ext import openai_public

from memory.llm import tokens
from memory.llm.tokens import MAX_PIECE_CHARS, TiktokenCounter, counter_for
from memory.model.errors import InvalidSettings

O200K = TiktokenCounter("o200k_base", exact=True)


@pytest.mark.parametrize(
    ("provider", "model", "encoding", "exact"),
    [
        ("openai", "gpt-4.1-mini", "o200k_base", True),
        ("openai", "gpt-5", "o200k_base", True),
        ("openai", "gpt-4-0613", "cl100k_base", True),
        ("openai", "ft:gpt-4o-mini:acme:suffix:id", "o200k_base", True),
        ("openai", "openai/gpt-oss-20b", "o200k_base", True),
        ("openai", "text-davinci-003", "o200k_base", False),
        ("openai", "qwen3-4b", "o200k_base", False),
        ("anthropic", "claude-haiku-4-5", "o200k_base", False),
        ("simulated", "", "o200k_base", True),
    ],
)
def test_each_model_has_its_encoding_or_the_fallback(provider: str, model: str, encoding: str, exact: bool) -> None:
    counter = counter_for(provider, model)
    assert (counter.name, counter.exact) == (encoding, exact)


@pytest.mark.parametrize("name", ["o200k_base", "cl100k_base"])
def test_the_tables_are_tiktokens_own(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The constructor of the installed tiktoken names a hash and a pattern; ours must be the same ones."""
    asked: dict[str, Any] = {}

    def no_download(url: str, expected_hash: str) -> dict[bytes, int]:
        asked.update(url=url, sha256=expected_hash)
        return {}

    monkeypatch.setattr(openai_public, "load_tiktoken_bpe", no_download)
    theirs = openai_public.ENCODING_CONSTRUCTORS[name]()
    assert asked["url"].endswith(f"/{name}.tiktoken")
    assert tokens._TABLES[name] == tokens._Table(asked["sha256"], theirs["pat_str"])


def test_known_counts() -> None:
    assert O200K.count("") == 0
    assert O200K.count("hello world") == 2
    assert TiktokenCounter("cl100k_base", exact=True).count("hello world") == 2
    assert O200K.count("Ich wohne in Köln und mag kurze Antworten.") == 10


def test_special_tokens_in_text_are_text() -> None:
    assert O200K.count("<|endoftext|>") > 1
    assert O200K.count("a <|endofprompt|> b") > 3


def test_lone_surrogates_and_nul_count() -> None:
    assert O200K.count("\ud83d") >= 1
    assert O200K.count("ok \udc00 then \x00") >= 4


@pytest.mark.parametrize(
    "text",
    [" " * 2**20, "\t " * 2**19, " " * 2**20 + "a", "a" * 2**20, "\n" * 2**20, "=" * 2**20, "\ud83d" * 2**20, "我" * 2**20],
    ids=["blanks", "tabs", "blanks-a", "a", "newlines", "equals", "surrogates", "han"],
)
def test_a_mebibyte_of_one_thing_is_counted(text: str) -> None:
    """Blanks alone make tiktoken panic in one piece; nothing here may raise or take minutes (the test's time-out bounds it)."""
    count = O200K.count(text)
    assert 1000 < count <= 4 * len(text)


def words(seed: int, size: int) -> str:
    rng = random.Random(seed)
    alphabet = ["name", "Köln", "prefers", "tea,", "2026-06-17", "\n- ", "  ", "数据", "(x)", "'s", "😀"]
    return " ".join(rng.choice(alphabet) for _ in range(size))


def test_long_prose_counts_as_in_one_piece() -> None:
    text = words(1, 60_000)
    assert len(text) > 4 * MAX_PIECE_CHARS
    whole: Encoding = tokens._encoding("o200k_base")
    assert O200K.count(text) == len(whole.encode_ordinary(text))


@given(st.text(max_size=300), st.integers(1, 20))
def test_pieces_lose_nothing_and_cut_between_tokens(text: str, repeat: int) -> None:
    long = (text + " word and word") * repeat * 50
    pieces = list(tokens._pieces(long))
    assert "".join(pieces) == long
    assert all(len(piece) <= MAX_PIECE_CHARS for piece in pieces)


def test_one_table_is_loaded_once_however_many_threads_ask(monkeypatch: pytest.MonkeyPatch) -> None:
    loads: list[str] = []
    load = tokens._load
    monkeypatch.setattr(tokens, "_loaded", {})
    monkeypatch.setattr(tokens, "_load", lambda name: (loads.append(name), load(name))[1])
    with ThreadPoolExecutor(8) as pool:
        counts = set(pool.map(O200K.count, ["one two three"] * 32))
    assert loads == ["o200k_base"]
    assert counts == {3}


def test_counting_needs_no_network_no_disk_and_no_native_tables_package() -> None:
    """In a fresh process: nothing is written or downloaded, and the 74 MB library of bpe-openai is not loaded."""
    script = """
import builtins, socket, sys
def refuse(*args, **kwargs): raise AssertionError("network")
socket.socket.connect = refuse
real_open = builtins.open
def read_only(file, mode="r", *args, **kwargs):
    assert not set(mode) & set("wax+"), f"writes {file}"
    return real_open(file, mode, *args, **kwargs)
builtins.open = read_only
from memory.llm.tokens import counter_for
print(counter_for("openai", "gpt-4o").count("hello world"), "bpe_openai" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.split() == ["2", "False"]


def test_a_damaged_table_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    package = tmp_path / "bpe_openai"
    (package / "data").mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "data" / "o200k_base.tiktoken.gz").write_bytes(b"not gzip")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "bpe_openai", raising=False)
    importlib.invalidate_caches()
    monkeypatch.setattr(tokens, "_loaded", {})
    with pytest.raises(InvalidSettings, match=r"o200k_base\.tiktoken\.gz.*install bpe-openai again"):
        O200K.count("x")
