"""Scripts, styles and pictures of the pages, read once and kept in memory.

All of them live under one address that holds a hash of them all, so that a browser may keep them for good and modules can import
each other by relative paths. An address of an older or newer version (a page that was open while the program was replaced) is
answered with what there is now and not kept.
"""

from __future__ import annotations

import gzip
import hashlib
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Final

from fastapi import APIRouter, Request, Response

from api.problems import NotFound

PREFIX: Final = "/assets"
FOREVER: Final = "public, max-age=31536000, immutable"
TYPES: Final = {".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml", ".png": "image/png", ".ico": "image/x-icon"}
_TEXT: Final = frozenset({".js", ".css", ".svg"})

router = APIRouter()


@dataclass(frozen=True, slots=True)
class Asset:
    """``zipped``: the same with gzip, None where that is not smaller."""

    content: bytes
    media_type: str
    etag: str
    zipped: bytes | None


@dataclass(frozen=True, slots=True)
class Assets:
    """``digest``: of all names and contents together. ``files``: by their path below ``static``."""

    digest: str
    files: dict[str, Asset]


@cache
def assets() -> Assets:
    """What the package ships."""
    found: dict[str, Asset] = {}
    whole = hashlib.sha256()
    for path, content in sorted(_walk(files("api.pages") / "static", "")):
        whole.update(f"{path}\0{len(content)}\0".encode() + content)
        found[path] = _asset(path, content)
    return Assets(whole.hexdigest()[:16], found)


def asset_url(request: Request, path: str) -> str:
    """The address of an asset. Raises KeyError for one that does not exist: a template's mistake."""
    known = assets()
    _ = known.files[path]
    return f"{request.scope.get('root_path', '')}{PREFIX}/{known.digest}/{path}"


@router.get(PREFIX + "/{digest}/{path:path}")
async def asset(request: Request, digest: str, path: str) -> Response:
    """One file of the pages; there is nothing of a user in any of them."""
    known = assets()
    found = known.files.get(path)
    if found is None:
        raise NotFound("there is no such file")
    headers = {
        "Cache-Control": FOREVER if digest == known.digest else "no-cache",
        "ETag": found.etag,
        "Vary": "Accept-Encoding",
        "X-Content-Type-Options": "nosniff",
    }
    if request.headers.get("if-none-match") == found.etag:
        return Response(status_code=304, headers=headers)
    if found.zipped is not None and "gzip" in request.headers.get("accept-encoding", ""):
        return Response(found.zipped, media_type=found.media_type, headers={**headers, "Content-Encoding": "gzip"})
    return Response(found.content, media_type=found.media_type, headers=headers)


def _walk(folder: Traversable, prefix: str) -> list[tuple[str, bytes]]:
    found: list[tuple[str, bytes]] = []
    for one in folder.iterdir():
        if one.is_dir():
            found += _walk(one, f"{prefix}{one.name}/")
        elif _suffix(one.name) in TYPES:
            found.append((prefix + one.name, one.read_bytes()))
    return found


def _asset(path: str, content: bytes) -> Asset:
    suffix = _suffix(path)
    zipped = gzip.compress(content, 9, mtime=0) if suffix in _TEXT else None
    return Asset(
        content=content,
        media_type=TYPES[suffix],
        etag=f'"{hashlib.sha256(content).hexdigest()[:16]}"',
        zipped=zipped if zipped is not None and len(zipped) < len(content) else None,
    )


def _suffix(name: str) -> str:
    return "." + name.rpartition(".")[2]
