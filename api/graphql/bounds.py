"""What bounds an operation before it is validated and run: its depth, its aliases, its cost.

Each fragment is measured once, so that fragments of fragments, which grow without end when they are written out, cost nothing
here. What is measured is the whole document, whichever operation is run.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from graphql import (
    DocumentNode,
    FieldNode,
    FragmentDefinitionNode,
    FragmentSpreadNode,
    GraphQLError,
    InlineFragmentNode,
    OperationDefinitionNode,
    SelectionSetNode,
)
from strawberry.extensions import SchemaExtension

MAX_CHARS: Final = 32 * 1024
"""Of a document; texts go into variables."""
MAX_TOKENS: Final = 1_000
MAX_DEPTH: Final = 5
MAX_INTROSPECTION_DEPTH: Final = 16
MAX_ALIASES: Final = 10
MAX_COST: Final = 1_000

COSTS: Final = {
    "getMyContextMemory": 50,
    "myContextMemoryPreference": 50,
    "contextMemoryEnablement": 50,
    "updateMyContextMemory": 200,
    "setMyContextMemoryPreference": 200,
    "__schema": 300,
    "__type": 100,
}
"""Of a field that asks a store, or writes; any other field costs 1."""
LIST_SIZES: Final = {"reasons": 6}
"""What is selected below a list counts so many times."""


@dataclass(frozen=True, slots=True)
class Size:
    depth: int = 0
    introspection_depth: int = 0
    aliases: int = 0
    cost: int = 0

    def beside(self, other: Size) -> Size:
        return Size(
            max(self.depth, other.depth),
            max(self.introspection_depth, other.introspection_depth),
            self.aliases + other.aliases,
            self.cost + other.cost,
        )

    def problem(self) -> str | None:
        for what, is_, most in (
            ("is nested {} levels deep", self.depth, MAX_DEPTH),
            ("asks for the schema {} levels deep", self.introspection_depth, MAX_INTROSPECTION_DEPTH),
            ("has {} aliases", self.aliases, MAX_ALIASES),
            ("costs {}", self.cost, MAX_COST),
        ):
            if is_ > most:
                shown = str(is_) if is_ < 10**9 else "too much"
                return f"the document {what.format(shown)}; at most {most} are allowed"
        return None


class _Measure:
    def __init__(self, document: DocumentNode) -> None:
        self._fragments = {one.name.value: one for one in document.definitions if isinstance(one, FragmentDefinitionNode)}
        self._known: dict[str, Size] = {}

    def of(self, selected: SelectionSetNode | None) -> Size:
        size = Size()
        for selection in () if selected is None else selected.selections:
            if isinstance(selection, FieldNode):
                size = size.beside(self._field(selection))
            elif isinstance(selection, InlineFragmentNode):
                size = size.beside(self.of(selection.selection_set))
            elif isinstance(selection, FragmentSpreadNode):
                size = size.beside(self._fragment(selection.name.value))
        return size

    def _field(self, field: FieldNode) -> Size:
        name = field.name.value
        below = self.of(field.selection_set)
        aliases = below.aliases + (field.alias is not None)
        cost = COSTS.get(name, 1) + below.cost * LIST_SIZES.get(name, 1)
        if name in ("__schema", "__type"):
            return Size(1, 1 + max(below.depth, below.introspection_depth), aliases, cost)
        introspected = 1 + below.introspection_depth if below.introspection_depth else 0
        return Size(1 + below.depth, introspected, aliases, cost)

    def _fragment(self, name: str) -> Size:
        if name not in self._known:
            # One that contains itself is refused by the validation.
            self._known[name] = Size()
            if (fragment := self._fragments.get(name)) is not None:
                self._known[name] = self.of(fragment.selection_set)
        return self._known[name]


def measured(document: DocumentNode) -> Size:
    """All operations together."""
    measure = _Measure(document)
    size = Size()
    for one in document.definitions:
        if isinstance(one, OperationDefinitionNode):
            size = size.beside(measure.of(one.selection_set))
    return size


class Bounds(SchemaExtension):
    """Refuses a document that is too much, before the rules of the language are applied to it: some of them take time that grows
    with the square of its size."""

    def on_validate(self) -> Iterator[None]:
        document = self.execution_context.graphql_document
        named: Any = getattr(self.execution_context, "provided_operation_name", None)
        if document is not None and (problem := _problem(document, named)):
            self.execution_context.pre_execution_errors = [GraphQLError(problem)]
        yield


def _problem(document: DocumentNode, operation: str | None) -> str | None:
    operations = [one for one in document.definitions if isinstance(one, OperationDefinitionNode)]
    if len(operations) > 1 and operation is None:
        return "the document has several operations: name one in operationName"
    return measured(document).problem()
