"""Addresses and keys of HTTP servers, checked before a library meets them: its own error would show what it was given."""

from __future__ import annotations

import re
from urllib.parse import urlsplit

from memory.model.errors import InvalidSettings


def check_address(name: str, key_name: str, address: str) -> str:
    """The address without what surrounds it.

    Args:
        name, key_name: of the settings that hold the address and the key that belongs to it.

    Raises:
        InvalidSettings: not an HTTP address, or one with a password in it.
    """
    address = address.strip().rstrip("/")
    try:
        url = urlsplit(address)
        usable = url.scheme in {"http", "https"} and bool(url.hostname) and url.port != 0
        has_user = url.username is not None
    except ValueError:
        usable = has_user = False
    if has_user:
        raise InvalidSettings(f"{name} holds a user or password: addresses are logged; use {key_name}")
    if not usable:
        raise InvalidSettings(f"{name} is not the address of a server: use http://host:port/… or https://…")
    return address


def check_key(key_name: str, key: str) -> str:
    """Raises InvalidSettings, without the key in it, for what cannot be sent in a header."""
    if not re.fullmatch(r"[!-~]*", key):
        raise InvalidSettings(f"{key_name} has characters that no key has (blanks, line ends or beyond ASCII)")
    return key
