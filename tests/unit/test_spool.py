"""The spool: nothing acknowledged is lost, nothing grows without a bound, whoever is killed and whoever else uses it."""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import sys
import threading
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory.model.errors import InvalidInput, MemoryUnavailable
from memory.model.event import ManagerMethodEvent, MessageEvent, Phase
from memory.model.scope import Scope
from memory.model.turn import Turn
from starter.pieces import EventsPiece, TurnPiece
from starter.spool import Spool, SpoolEntry, decode_entry, encode_entry

NOW = datetime(2026, 6, 17, 12, 0, tzinfo=UTC)
SCOPE = Scope.of("acme", "ann")


def _turn(**fields: Any) -> TurnPiece:
    return TurnPiece(Turn(**fields))


def _turn_id(entry: SpoolEntry) -> str:
    assert isinstance(entry.piece, TurnPiece)
    return entry.piece.turn.turn_id


def entry(number: int | str, text: str | None = "hello", scope: Scope = SCOPE) -> SpoolEntry:
    return SpoolEntry(scope, _turn(turn_id=f"t{number}", user_text=text, assistant_text="hi", occurred_at=NOW), NOW)


@pytest.fixture
def spool(tmp_path: Path) -> Spool:
    return Spool(tmp_path / "deep" / "spool.jsonl", max_bytes=1_000_000)


def drained(spool: Spool, *, settle: int | None = None) -> list[str]:
    """Turn ids of one claim, in order; the first ``settle`` of them (all by default) are done."""
    claim = spool.claim()
    assert claim is not None
    ids: list[str] = []
    while lines := claim.take(3):
        for line in lines:
            ids.append(_turn_id(line.entry) if line.entry else f"unreadable: {line.problem}")
            if settle is None or len(ids) <= settle:
                claim.advance(line)
        if settle is not None and len(ids) >= settle:
            break
    claim.close()
    return ids


def test_what_goes_in_comes_out_in_order_and_then_is_gone(spool: Spool) -> None:
    for number in range(10):
        spool.append(entry(number))
    assert drained(spool) == [f"t{number}" for number in range(10)]
    assert spool.waiting_bytes() == 0
    assert drained(spool) == []
    assert not spool.draining_path.exists()


@given(
    text=st.one_of(st.none(), st.text(st.characters(codec=None, exclude_categories=()))),
    turn_id=st.text(min_size=1, max_size=50),
    tenant=st.text(st.characters(codec=None, exclude_categories=()), min_size=1, max_size=50),
)
def test_any_text_survives_as_one_line(text: str | None, turn_id: str, tenant: str) -> None:
    given_entry = SpoolEntry(Scope.of(tenant, "u"), _turn(turn_id=turn_id, user_text=text, occurred_at=NOW), NOW)
    line = encode_entry(given_entry)
    assert line.count(b"\n") == 1
    assert decode_entry(line) == given_entry


@given(
    content=st.one_of(st.none(), st.text(st.characters(codec=None, exclude_categories=()))),
    payload=st.dictionaries(
        st.text(max_size=10), st.text(st.characters(codec=None, exclude_categories=()), max_size=50), max_size=3
    ),
)
def test_events_survive_as_one_line(content: str | None, payload: dict[str, str]) -> None:
    message = MessageEvent(timestamp=NOW, sender_id="ann", receiver_ids=("user",), medium="sms", content=content)
    call = ManagerMethodEvent(
        timestamp=NOW, manager="TaskManager", method="update", phase=Phase.INCOMING, calling_id="c1", payload=payload
    )
    given_entry = SpoolEntry(SCOPE, EventsPiece((message, call), "lab", True).checked(), NOW)
    line = encode_entry(given_entry)
    assert line.count(b"\n") == 1
    assert decode_entry(line) == given_entry


def test_only_the_owner_can_read_what_waits(spool: Spool) -> None:
    spool.append(entry(1))
    spool.path.chmod(0o666)
    spool.append(entry(2))
    for path in (spool.path, spool.path.with_name("spool.jsonl.lock")):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(spool.path.parent.stat().st_mode) == 0o700


def test_a_link_in_the_place_of_the_file_is_not_followed(spool: Spool, tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("mine")
    spool.path.parent.mkdir()
    spool.path.symlink_to(victim)
    with pytest.raises(MemoryUnavailable, match="cannot be written"):
        spool.append(entry(1))
    assert victim.read_text() == "mine"


class TestBounds:
    def test_a_full_spool_says_so_and_keeps_what_it_has(self, tmp_path: Path) -> None:
        size = len(encode_entry(entry(0)))
        small = Spool(tmp_path / "s.jsonl", max_bytes=size * 3)
        for number in range(3):
            small.append(entry(number))
        with pytest.raises(MemoryUnavailable, match=f"full: {size * 3} of {size * 3} bytes"):
            small.append(entry(3))
        assert drained(small) == ["t0", "t1", "t2"]

    def test_what_is_being_drained_counts(self, tmp_path: Path) -> None:
        size = len(encode_entry(entry(0)))
        small = Spool(tmp_path / "s.jsonl", max_bytes=size * 3)
        small.append(entry(0))
        small.append(entry(1))
        claim = small.claim()
        assert claim is not None
        small.append(entry(2))
        with pytest.raises(MemoryUnavailable, match="full"):
            small.append(entry(3))
        claim.close()
        assert drained(small) == ["t0", "t1"]
        assert drained(small) == ["t2"]

    def test_zero_switches_it_off(self, tmp_path: Path) -> None:
        off = Spool(tmp_path / "s.jsonl", max_bytes=0)
        assert not off.enabled
        with pytest.raises(MemoryUnavailable, match="AFTERTURN_SPOOL_MAX_BYTES"):
            off.append(entry(0))
        assert list(tmp_path.iterdir()) == []

    def test_the_side_file_is_bounded(self, tmp_path: Path) -> None:
        spool = Spool(tmp_path / "s.jsonl", max_bytes=20_000_000)
        for number in range(4):
            spool.append(entry(number, "x" * 900_000))
        claim = spool.claim()
        assert claim is not None
        kept = [claim.reject(line, "the log refuses it") for line in claim.take(10)]
        assert kept == [True, True, False, False]
        assert spool.rejected_path.stat().st_size <= 20_000_000 // 8
        assert stat.S_IMODE(spool.rejected_path.stat().st_mode) == 0o600
        first = json.loads(spool.rejected_path.read_bytes().splitlines()[0])
        assert first["reason"] == "the log refuses it"
        assert _turn_id(decode_entry(first["line"].encode())) == "t0"
        claim.close()

    def test_a_disk_without_room_leaves_no_half_line(self, spool: Spool, monkeypatch: pytest.MonkeyPatch) -> None:
        spool.append(entry(0))
        before = spool.path.read_bytes()
        write = os.write

        def half(file: int, data: bytes) -> int:
            if len(data) > 20:
                return write(file, data[:20])
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(os, "write", half)
        with pytest.raises(MemoryUnavailable, match="No space left"):
            spool.append(entry(1, None))
        monkeypatch.undo()
        assert spool.path.read_bytes() == before


class TestBrokenLines:
    def test_a_line_cut_off_by_a_kill_does_not_spoil_the_next(self, spool: Spool) -> None:
        spool.append(entry(0))
        with spool.path.open("ab") as file:
            file.write(encode_entry(entry(1))[:-15])
        spool.append(entry(2))
        assert drained(spool) == ["t0", "unreadable: the line is not complete or not readable", "t2"]

    def test_a_cut_off_last_line_is_told_apart(self, spool: Spool) -> None:
        spool.append(entry(0))
        with spool.path.open("ab") as file:
            file.write(encode_entry(entry(1))[:40])
        assert drained(spool) == ["t0", "unreadable: the line is not complete or not readable"]

    @pytest.mark.parametrize(
        "line",
        [
            b"[]\n",
            b"null\n",
            b"\xff\xfe\n",
            b"[" * 100_000 + b"\n",
            b'{"v":2}\n',
            encode_entry(entry(1)).replace(b'"tenant":"acme"', b'"tenant":"../acme"'),
            encode_entry(entry(1)).replace(b'"occurred_at":"2026', b'"occurred_at":"secret'),
            encode_entry(entry(1)).replace(b'"at":"2026', b'"at":"secret'),
            encode_entry(entry(1)).replace(b'"turn_id":"t1"', b'"turn_id":""'),
        ],
    )
    def test_a_line_of_another_form_is_an_error_without_its_text(self, line: bytes) -> None:
        with pytest.raises(InvalidInput) as caught:
            decode_entry(line)
        assert "secret" not in str(caught.value)
        assert "hello" not in str(caught.value)


class TestInterruptedDrain:
    def test_what_was_not_settled_waits_and_comes_before_what_is_newer(self, spool: Spool) -> None:
        for number in range(5):
            spool.append(entry(number))
        assert drained(spool, settle=2)[:2] == ["t0", "t1"]
        spool.append(entry(5))
        assert drained(spool) == ["t2", "t3", "t4"]
        assert drained(spool) == ["t5"]

    def test_only_one_drains_at_a_time(self, spool: Spool) -> None:
        spool.append(entry(0))
        mine = spool.claim()
        assert mine is not None
        assert spool.claim() is None
        mine.close()
        again = spool.claim()
        assert again is not None
        again.close()


CHILD = """
import sys
from datetime import UTC, datetime
from pathlib import Path
from memory.model.scope import Scope
from memory.model.turn import Turn
from starter.pieces import TurnPiece
from starter.spool import Spool, SpoolEntry

what, path, name, count = sys.argv[1], Path(sys.argv[2]), sys.argv[3], int(sys.argv[4])
spool = Spool(path, max_bytes=50_000_000)
if what == "append":
    for number in range(count):
        turn = Turn(turn_id=f"{name}-{number}", user_text="x" * 5000, occurred_at=datetime.now(UTC))
        spool.append(SpoolEntry(Scope.of("acme", name), TurnPiece(turn), datetime.now(UTC)), wait_s=30)
        print(turn.turn_id, flush=True)
else:
    claim = spool.claim()
    taken = claim.take(count)
    claim.advance(taken[0])
    print("claimed", flush=True)
    sys.stdin.read()
"""


def child(what: str, path: Path, name: str, count: int) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-c", CHILD, what, str(path), name, str(count)]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=Path(__file__).parents[2])


def test_what_a_killed_process_acknowledged_is_there(spool: Spool) -> None:
    with child("append", spool.path, "a", 1_000_000) as process:
        assert process.stdout is not None
        acknowledged = [process.stdout.readline().decode().strip() for _ in range(50)]
        process.send_signal(signal.SIGKILL)
        acknowledged += process.stdout.read().decode().splitlines()
    ids = [name for name in drained(spool) if not name.startswith("unreadable")]
    assert ids[: len(acknowledged)] == acknowledged
    assert len(ids) <= len(acknowledged) + 1


def test_a_drain_that_was_killed_loses_nothing_and_holds_no_lock(spool: Spool) -> None:
    for number in range(4):
        spool.append(entry(number))
    with child("drain", spool.path, "d", 3) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"claimed\n"
        assert spool.claim() is None
        process.send_signal(signal.SIGKILL)
    assert drained(spool) == ["t0", "t1", "t2", "t3"]


def test_two_processes_and_a_drain_share_a_spool(spool: Spool) -> None:
    seen: list[str] = []
    stop = threading.Event()

    def keep_draining() -> None:
        while not stop.is_set():
            seen.extend(drained(spool))

    with child("append", spool.path, "a", 60) as one, child("append", spool.path, "b", 60) as two:
        drainer = threading.Thread(target=keep_draining)
        drainer.start()
        try:
            assert one.communicate(timeout=60)[0].count(b"\n") == 60
            assert two.communicate(timeout=60)[0].count(b"\n") == 60
        finally:
            stop.set()
            drainer.join()
    seen.extend(drained(spool))
    assert [name for name in seen if name.startswith("a")] == [f"a-{number}" for number in range(60)]
    assert [name for name in seen if name.startswith("b")] == [f"b-{number}" for number in range(60)]


def test_rejected_lines_of_a_user_who_is_forgotten_go_also_where_one_broke_off(spool: Spool) -> None:
    similar = Scope.of("acme", "ann-2")
    assert spool.forget_rejected(SCOPE) == 0
    for number, scope in enumerate((SCOPE, similar, SCOPE)):
        spool.append(entry(number, "violet ibex" if scope == SCOPE else "of another", scope))
    with spool.path.open("ab") as file:
        file.write(encode_entry(entry(9, "violet ibex"))[:120])
    claim = spool.claim()
    assert claim is not None
    assert all(claim.reject(line, "the log refuses it") for line in claim.take(10))
    claim.close()
    assert b"violet" in spool.rejected_path.read_bytes()

    assert spool.forget_rejected(SCOPE) == 3
    left = spool.rejected_path.read_bytes()
    assert b"violet" not in left
    assert left.count(b"of another") == 1
    assert stat.S_IMODE(spool.rejected_path.stat().st_mode) == 0o600
    assert spool.forget_rejected(SCOPE) == 0
