"""The vector index: Qdrant's engine in the process, the service of the process that owns it, or a Qdrant server."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager

from memory.model.errors import InvalidSettings
from memory.ports.vectors import VectorIndex
from memory.settings import Settings

FOLDER = "vectors"
"""Name of the embedded engine's folder in the data folder."""


def build_vectors(settings: Settings, *, owner: str = "afterturn") -> VectorIndex:
    """A server (``vector_url``), else the service of an ``afterturn dev`` (``vector_service_url``), else the embedded engine.

    Opens nothing: a process that never searches takes no lock. ``owner``: what this process is, for the message that another
    one shows when it finds the engine's folder in use.

    Raises:
        InvalidSettings: an address or a key that cannot be one.
    """
    key = settings.vector_api_key.get_secret_value().strip() if settings.vector_api_key else ""
    if settings.vector_url:
        from memory.stores.vectors.server import ServerVectors

        return ServerVectors.connect(
            settings.vector_url, api_key=key, prefix=f"{settings.bucket_prefix}-", timeout_s=settings.vector_timeout_s
        )
    if settings.vector_service_url:
        from memory.stores.vectors.remote import RemoteVectorIndex

        if not key:
            raise InvalidSettings("AFTERTURN_VECTOR_SERVICE_URL is set without AFTERTURN_VECTOR_API_KEY, the service's token")
        return RemoteVectorIndex(settings.vector_service_url, key, settings.vector_timeout_s)
    from memory.stores.vectors.edge import EdgeVectors

    return EdgeVectors(settings.data_dir / FOLDER, owner=owner, timeout_s=settings.vector_timeout_s)


def serve_vectors(index: VectorIndex, *, token: str) -> AbstractAsyncContextManager[str]:
    """Serve ``index`` to other processes of this machine; yields the address. See :mod:`memory.stores.vectors.service`."""
    from memory.stores.vectors.service import serve

    return serve(index, token=token)
