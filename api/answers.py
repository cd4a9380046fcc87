"""JSON as this API sends it."""

from __future__ import annotations

import json
from typing import Any

from fastapi.responses import JSONResponse


class Json(JSONResponse):
    """As the framework's, but text that is no Unicode (half of a surrogate pair in an id that came from outside) goes out escaped
    instead of failing the request."""

    def render(self, content: Any) -> bytes:
        try:
            return json.dumps(content, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()
        except UnicodeEncodeError:
            return json.dumps(content, allow_nan=False, separators=(",", ":")).encode("ascii")
