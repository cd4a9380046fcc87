"""The changes of knowledge tables as requests, made from the types of :mod:`memory.model.knowledge`, so that the two cannot differ:

{"change": {"kind": "rename_table", "old_name": "Firms", "new_name": "Suppliers"}, "destination": "personal"}
"""

from __future__ import annotations

import dataclasses
import re
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, Union, get_args, get_type_hints

from pydantic import BaseModel, ConfigDict, Field, create_model

from memory.model.knowledge import MAX_LIMIT, MAX_ROWS_PER_CALL, PERSONAL, TableChange

_BOUNDS: Final[dict[str, Any]] = {
    "limit": Field(ge=1, le=MAX_LIMIT),
    "offset": Field(ge=0, le=2**53),
    "rows": Field(max_length=MAX_ROWS_PER_CALL),
    "updates": Field(max_length=MAX_ROWS_PER_CALL),
}


class _Closed(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


def _kind(change: type[Any]) -> str:
    """``RenameTable`` → ``rename_table``."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", change.__name__).lower()


def _request(change: type[Any]) -> type[BaseModel]:
    hints = get_type_hints(change)
    fields: dict[str, Any] = {"kind": (Literal[_kind(change)], ...)}  # pyright: ignore[reportInvalidTypeForm]
    for one in dataclasses.fields(change):
        bound = _BOUNDS.get(one.name)
        type_ = hints[one.name] if bound is None else Annotated[hints[one.name], bound]
        fields[one.name] = (type_, ... if one.default is dataclasses.MISSING else one.default)
    return create_model(change.__name__, __base__=_Closed, __doc__=change.__doc__ or "", **fields)


_CHANGES: Final[dict[str, type[Any]]] = {_kind(change): change for change in get_args(TableChange)}
_REQUESTS: Final = tuple(_request(change) for change in _CHANGES.values())
_EXAMPLE: Final[dict[str, Any]] = {
    "change": {"kind": "rename_table", "old_name": "Firms", "new_name": "Suppliers"},
    "destination": PERSONAL,
}


if TYPE_CHECKING:
    OneChange = Any
else:
    OneChange = Annotated[Union[_REQUESTS], Field(discriminator="kind", description="what is changed")]  # noqa: UP007


class AnyChange(BaseModel):
    """One change, and where it is made."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [_EXAMPLE]})

    change: OneChange
    destination: str = Field(PERSONAL, max_length=300, description="`personal` or `team:<id>`")

    @property
    def asked(self) -> TableChange:
        """As the store takes it."""
        given: BaseModel = self.change
        fields = {name: getattr(given, name) for name in type(given).model_fields}
        return _CHANGES[fields.pop("kind")](**fields)
