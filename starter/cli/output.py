"""What commands write: results on standard output, everything else on standard error.

A user's text may hold anything, so nothing of it reaches a terminal as a control sequence or as markup.
"""

from __future__ import annotations

import io
import json
import sys
import unicodedata
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

_BIDI = {*range(0x202A, 0x202F), *range(0x2066, 0x206A)}
"""Embeddings, overrides and isolates: they can make a line look like another one."""


def prepare_streams() -> None:
    """A character that the terminal's encoding lacks is shown as an escape instead of an exception."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def stdout() -> Console:
    from rich.console import Console

    return Console(highlight=False, soft_wrap=True, emoji=False)


def stderr() -> Console:
    from rich.console import Console

    return Console(stderr=True, highlight=False, soft_wrap=True, emoji=False)


def write(text: str) -> None:
    """Plain text on standard output, as it is."""
    sys.stdout.write(text)
    sys.stdout.flush()


def emit_json(value: Any) -> None:
    """One JSON document on standard output. Dataclasses, models, enums and times are understood."""
    from pydantic_core import to_jsonable_python

    ascii_only = "utf" not in (sys.stdout.encoding or "").lower()
    write(json.dumps(to_jsonable_python(value), ensure_ascii=ascii_only, indent=2) + "\n")


def one_line(text: str) -> str:
    return safe_text(" ".join(text.split()))


def safe_text(text: str) -> str:
    """Text for a terminal: control characters (but line ends and tabs) and direction overrides are shown as escapes."""
    return "".join(
        c.encode("unicode_escape").decode("ascii")
        if (unicodedata.category(c) in ("Cc", "Cs") and c not in "\n\t") or ord(c) in _BIDI
        else c
        for c in text
    )


def for_stdout(text: str) -> str:
    """Text that is shown safely on a terminal and passed on verbatim to a file or a pipe."""
    return safe_text(text) if sys.stdout.isatty() else text


def table(
    columns: Sequence[str],
    rows: Iterable[Sequence[str]],
    *,
    width: int,
    whole: Sequence[str] = (),
    spare: Sequence[str] = (),
    cut: bool = False,
) -> tuple[Table, list[str]]:
    """A table without frames for ``width`` cells, and the headers that found no room; cells are plain text.

    ``whole`` and ``spare``: as :func:`starter.cli.layout.layout` takes them. ``cut``: long cells end in … and take one line.
    """
    from rich import box
    from rich.table import Table
    from rich.text import Text

    from starter.cli.layout import layout

    listed = [[safe_text(cell) for cell in row] for row in rows]
    headers = [safe_text(name) for name in columns]
    fitting = layout(headers, listed, width=width, whole=whole, spare=spare)
    out = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, header_style="bold")
    for at, wide in zip(fitting.shown, fitting.widths, strict=True):
        out.add_column(Text(headers[at]), overflow="ellipsis" if cut else "fold", no_wrap=cut, width=wide)
    for row in listed:
        out.add_row(*(Text(row[at]) for at in fitting.shown))
    return out, [headers[at] for at in fitting.left_out]


def left_out_note(left_out: Sequence[str]) -> str:
    return f"no room for {', '.join(left_out)}"


def print_table(
    columns: Sequence[str],
    rows: Iterable[Sequence[str]],
    *,
    empty: str,
    whole: Sequence[str] = (),
    spare: Sequence[str] = (),
) -> None:
    """A table on a terminal, as wide as that is; on anything else one row a line with all columns, cells apart by tabs."""
    listed = list(rows)
    if not sys.stdout.isatty():
        clean = ("\t".join(cell.replace("\t", " ").replace("\n", " ") for cell in row) for row in (columns, *listed))
        write("".join(line + "\n" for line in clean) if listed else empty + "\n")
    elif not listed:
        write(empty + "\n")
    else:
        console = stdout()
        shown, left_out = table(columns, listed, width=console.width, whole=whole, spare=spare)
        console.print(shown, soft_wrap=False)
        if left_out:
            write(f"({left_out_note(left_out)}; a wider terminal or --json shows all)\n")


def when(value: Any) -> str:
    """A time as people read it: UTC, seconds."""
    return "" if value is None else value.strftime("%Y-%m-%d %H:%M:%S")
