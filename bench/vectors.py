"""Qdrant's engine in a process of its own, for the workers of a site: what a Qdrant server is in production.

    python -m bench.vectors READY_FILE

Opens the folder of ``AFTERTURN_DATA_DIR``, serves it with the token ``AFTERTURN_VECTOR_API_KEY`` and writes its address into the
file. Works until SIGTERM.
"""

from __future__ import annotations

import asyncio
import signal
import sys
from pathlib import Path

from memory.settings import load_settings
from memory.stores.vectors import build_vectors, serve_vectors


async def run(ready: Path) -> None:
    settings = load_settings()
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    token = settings.vector_api_key.get_secret_value() if settings.vector_api_key else ""
    index = build_vectors(settings, owner="bench vectors")
    try:
        async with serve_vectors(index, token=token) as address:
            partial = ready.with_suffix(".part")
            partial.write_text(address, "utf-8")
            partial.rename(ready)
            await stop.wait()
    finally:
        await index.aclose()


if __name__ == "__main__":
    asyncio.run(run(Path(sys.argv[1])))
