"""Primitives by dotted names: how an orchestrator's own agent reaches a user's memory while it answers.

    primitives = Primitives(memory, ("acme", "user_123"))
    reply = await openai.chat.completions.create(..., tools=primitives.openai_tools())
    outcome = await primitives.call(tool_call.function.name, json.loads(tool_call.function.arguments))

Each primitive is a typed callable of one user, with a tool definition made from its signature. The agent names what it wants and
never whose memory it is.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from pydantic_core import to_jsonable_python

from memory.knowledge.arguments import Tool, tool
from memory.knowledge.primitives import Calls
from memory.knowledge.results import ToolOutcome, problem, rendered
from memory.model.errors import AfterturnError, InvalidInput, MemoryUnavailable, NotPermitted
from memory.model.knowledge import ToolProblem
from memory.model.tools import ToolDefinition

NAMES: Final = (
    "knowledge.ask",
    "knowledge.update",
    "knowledge.refactor",
    "contacts.ask",
    "contacts.update",
    "tasks.ask",
    "tasks.update",
    "facts.search",
    "events.search",
    "guidance.search",
    "functions.search",
    "files.parse",
)
WAIT_S: Final = 120.0


class Client(Protocol):
    """What primitives ask of :class:`starter.MemoryClient`."""

    knowledge: Any
    contacts: Any
    tasks: Any
    guidance: Any
    functions: Any
    search_facts: Any
    search_events: Any


FileSource = Callable[[str], Awaitable[bytes]]
"""From a name that the orchestrator has given its agent to the bytes of that file; never a path of this machine. Raises
InvalidInput for an unknown name."""


@dataclass(frozen=True, slots=True)
class Primitive:
    """``name``: dotted. ``definition``: under a name that both providers take. Call it with keyword arguments."""

    name: str
    definition: ToolDefinition
    function: Callable[..., Awaitable[Any]] = field(repr=False)
    tool: Tool = field(repr=False)

    async def __call__(self, **arguments: Any) -> Any:
        """The result as plain JSON values. Raises ToolProblem for arguments that do not fit, and what the client raises."""
        return to_jsonable_python(await self.function(**self.tool.bind(arguments)))


class Primitives(Mapping[str, Primitive]):
    """Of one user, by dotted name.

    Args:
        client: a ``MemoryClient``, or what looks like one.
        who: the user.
        wait_s: so long is waited for the answer of a loop; then its id is given, and it goes on.
        files: where ``files.parse`` gets its bytes; without it there is no such primitive.
        said: the user's own messages of this conversation, oldest first. Where they are given, only they can ask for a deletion,
            of what and of which kind; what the agent writes cannot. Without them the agent's words count as the caller's.
        names: these primitives only; all by default.
    """

    def __init__(
        self,
        client: Client,
        who: Any,
        *,
        wait_s: float = WAIT_S,
        files: FileSource | None = None,
        said: Sequence[str] | None = None,
        names: Sequence[str] | None = None,
    ) -> None:
        unknown = sorted(set(names or ()) - set(NAMES))
        if unknown:
            raise InvalidInput(f"there is no primitive {ascii(unknown[0])[:40]}; there are {', '.join(NAMES)}")
        calls = Calls(client, who, wait_s=wait_s, files=files, said=said)
        self._all: dict[str, Primitive] = {}
        for name in NAMES if names is None else names:
            if name == "files.parse" and files is None:
                continue
            function = getattr(calls, name.replace(".", "_"))
            made = tool(getattr(Calls, name.replace(".", "_")), name=name.replace(".", "-"))
            self._all[name] = Primitive(name, made.definition, function, made)

    def __getitem__(self, name: str) -> Primitive:
        return self._all[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._all)

    def __len__(self) -> int:
        return len(self._all)

    def definitions(self) -> tuple[ToolDefinition, ...]:
        return tuple(one.definition for one in self._all.values())

    def openai_tools(self) -> list[dict[str, Any]]:
        """For ``chat.completions.create(tools=…)``."""
        return [
            {
                "type": "function",
                "function": {"name": one.name, "description": one.description, "parameters": dict(one.parameters)},
            }
            for one in self.definitions()
        ]

    def anthropic_tools(self) -> list[dict[str, Any]]:
        """For ``messages.create(tools=…)``."""
        return [
            {"name": one.name, "description": one.description, "input_schema": dict(one.parameters)} for one in self.definitions()
        ]

    async def call(self, name: str, arguments: Mapping[str, Any] | None) -> ToolOutcome:
        """Carry out what a model asked for. Errors are data that it can read; nothing of this program's faults is in them.

        Args:
            name: dotted, or as the definitions have it.
            arguments: as the model sent them; None where they were no JSON object.
        """
        primitive = self._all.get(name.replace("-", "."))
        try:
            if primitive is None:
                raise ToolProblem("unknown_tool", f"there is no {name[:64]!r}; there are: {', '.join(self._all)}")
            result = await primitive.function(**primitive.tool.bind(arguments))
            content, rows = await asyncio.to_thread(lambda: rendered(to_jsonable_python(result)))
            return ToolOutcome(content, rows=rows)
        except ToolProblem as error:
            return problem(error)
        except AfterturnError as error:
            return problem(ToolProblem(_code(error), error.message))


def _code(error: AfterturnError) -> str:
    if isinstance(error, InvalidInput):
        return "bad_arguments"
    if isinstance(error, NotPermitted):
        return "not_permitted"
    return "unavailable" if isinstance(error, MemoryUnavailable) else "failed"
