"""Where a sign-in leads to: paths of this server, nothing else."""

from __future__ import annotations

import re
from typing import Annotated, Final

from fastapi import Query, Request

NextPath = Annotated[str | None, Query(alias="next", max_length=4_096)]
MAX_PATH_CHARS: Final = 1_000
# What browsers drop or read as a slash (backslash, tab, line ends) could turn a path into another host's address.
_LOCAL = re.compile(r"/(?![/\\])[!-\[\]-~]*")


def local_path(given: str | None, default: str) -> str:
    """``given`` where it is a path (with query) of this server that is not about signing in itself; else ``default``."""
    if given is None or len(given) > MAX_PATH_CHARS or not _LOCAL.fullmatch(given):
        return default
    path = re.split(r"[?#]", given, maxsplit=1)[0].rstrip("/")
    return default if path.endswith(("/login", "/logout", "/signed-out")) or "/login/" in path + "/" else given


def home(request: Request) -> str:
    """Where a sign-in leads that nobody asked for a page in."""
    return f"{request.scope.get('root_path', '')}/settings"
