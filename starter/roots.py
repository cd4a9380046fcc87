"""Memory roots of a company: list, provision, rename, remove, and what to do where several clash."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from memory.model.directory import MemoryRoot
from memory.model.errors import InvalidInput, RootClash
from memory.ports import Directory

IsUnused = Callable[[str, str], Awaitable[bool]]
"""Whether no profile lies under (tenant, folder)."""


@dataclass(frozen=True, slots=True)
class RenamedRoot:
    """``root``: under its new name. ``was_active``, ``active``: the company's active roots before and after."""

    root: MemoryRoot
    was_active: tuple[str, ...]
    active: tuple[str, ...]


class Roots:
    """``tenant``: encoded, as in a Scope. All methods raise MemoryUnavailable while a store is away."""

    def __init__(self, directory: Directory, is_unused: IsUnused) -> None:
        self._directory = directory
        self._is_unused = is_unused

    async def list(self, tenant: str) -> tuple[MemoryRoot, ...]:
        """By name, removed ones included."""
        return tuple(await self._directory.roots(tenant))

    async def is_unused(self, tenant: str, folder: str) -> bool:
        """Whether no profile lies under the root; asks the object store."""
        return await self._is_unused(tenant, folder)

    async def provision(self, tenant: str, folder: str) -> MemoryRoot:
        """Make a root, or make a removed one active again. The same again changes nothing.

        Raises:
            RootClash: another root is active; two of them would switch memory off.
            InvalidInput: not a name for a folder.
        """
        active = active_of(await self.list(tenant))
        if others := [name for name in active if name != folder]:
            raise RootClash(
                f"the company has the active root {' and '.join(others)} already; a second one would switch memory off: "
                "rename it, or remove it first"
            )
        return await self._directory.provision_root(tenant, folder)

    async def rename(self, tenant: str, folder: str, new_folder: str) -> RenamedRoot:
        """Of several active roots, the renamed one is set aside; to the name of another root, the two records become one.

        Profiles in the object store are not moved, so the only active root can be renamed while none lies under it.

        Raises InvalidInput: there is no such active root, profiles would no longer be found, not a name for a folder.
        """
        before = await self._must_be_active(tenant, folder)
        nothing = await self._nothing_in_it(tenant, folder, before)
        renamed = await self._directory.rename_root(tenant, folder, new_folder, nothing_in_it=nothing)
        return RenamedRoot(renamed, before, active_of(await self.list(tenant)))

    async def remove(self, tenant: str, folder: str) -> None:
        """Spaces that name it fall back to the default; profiles in the object store are not deleted. Raises as :meth:`rename`."""
        before = await self._must_be_active(tenant, folder)
        nothing = await self._nothing_in_it(tenant, folder, before)
        await self._directory.remove_root(tenant, folder, nothing_in_it=nothing)

    async def _must_be_active(self, tenant: str, folder: str) -> tuple[str, ...]:
        active = active_of(await self.list(tenant))
        if folder not in active:
            raise InvalidInput(f"there is no active root {folder[:63]!r}; there are: {', '.join(active) or 'none'}")
        return active

    async def _nothing_in_it(self, tenant: str, folder: str, active: Sequence[str]) -> bool:
        """Asked only where it matters, since it takes the object store."""
        return tuple(active) == (folder,) and await self._is_unused(tenant, folder)


def active_of(roots: Sequence[MemoryRoot]) -> tuple[str, ...]:
    return tuple(root.folder for root in roots if root.active)
