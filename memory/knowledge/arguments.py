"""Tools made from typed functions: the JSON schema that a model sees, and the check of what it sends.

A tool is a function with keyword-only parameters. Its schema comes from the types, its words from the docstring (the part
``Args:`` describes the parameters), so that what is said, what is checked and what is called cannot differ.
"""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Final, cast, get_type_hints

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, create_model

from memory.model.knowledge import ToolProblem
from memory.model.tools import MAX_ARGUMENT_CHARS, ToolDefinition

MAX_PROBLEMS: Final = 5
"""Of one call that are named."""
_SECTION = re.compile(r"^(Args|Returns|Raises):\s*$", re.MULTILINE)
_PARAMETER = re.compile(r"^ {4}(\w+): ", re.MULTILINE)


def _one_or_many(value: Any) -> Any:
    """A lone name where a list of names belongs: models write both."""
    return [value] if isinstance(value, str) else value


def _spelled_out(value: Any) -> Any:
    """An object that was sent as its JSON text."""
    if isinstance(value, str) and value.lstrip()[:1] in ("{", "["):
        try:
            return json.loads(value)
        except ValueError:
            return value
    return value


Names = Annotated[list[str], BeforeValidator(_one_or_many), BeforeValidator(_spelled_out)]
"""Names as a list; one alone is taken too."""
Texts = Annotated[dict[str, str], BeforeValidator(_spelled_out)]
Objects = Annotated[list[dict[str, Any]], BeforeValidator(_spelled_out)]
Changes = Annotated[dict[int, dict[str, Any]], BeforeValidator(_spelled_out)]


class Arguments(BaseModel):
    """Base of the models of a tool's arguments: closed."""

    model_config = ConfigDict(extra="forbid", hide_input_in_errors=True)


@dataclass(frozen=True, slots=True)
class Tool:
    """``function``: unbound; its first parameter (``self``) is no argument."""

    name: str
    function: Callable[..., Any] = field(repr=False)
    model: type[Arguments] = field(repr=False)
    definition: ToolDefinition = field(repr=False)

    def bind(self, arguments: Mapping[str, Any] | None) -> dict[str, Any]:
        """The keyword arguments of a call, checked and in their types.

        Raises ToolProblem ``bad_arguments``; its message says what is wrong and what there is.
        """
        if arguments is None:
            raise ToolProblem("bad_arguments", f"the arguments of {self.name} must be one JSON object; {self._takes()}")
        try:
            checked = self.model.model_validate(dict(arguments))
        except ValidationError as error:
            raise ToolProblem("bad_arguments", f"{self._problems(error)}; {self._takes()}") from None
        except RecursionError:
            raise ToolProblem("bad_arguments", "the arguments are nested too deeply") from None
        return {name: getattr(checked, name) for name in type(checked).model_fields}

    def _takes(self) -> str:
        said = [name if one.is_required() else f"{name} (optional)" for name, one in self.model.model_fields.items()]
        return f"{self.name} takes {', '.join(said) or 'nothing'}"

    @staticmethod
    def _problems(error: ValidationError) -> str:
        found = error.errors(include_url=False, include_input=False, include_context=False)
        said = [f"{'.'.join(str(part)[:60] for part in one['loc']) or 'arguments'}: {one['msg'][:200]}" for one in found]
        more = f" and {len(said) - MAX_PROBLEMS} more" if len(said) > MAX_PROBLEMS else ""
        return "; ".join(said[:MAX_PROBLEMS]) + more


def tool(function: Callable[..., Any], *, name: str | None = None, leave_out: frozenset[str] = frozenset()) -> Tool:
    """The tool that this function is. Raises TypeError for one with parameters that are not keyword-only.

    Args:
        function: with type hints and a docstring.
        name: the tool's name, where it is not the function's.
        leave_out: parameters with defaults that a model is not offered.
    """
    called = name or function.__name__
    hints = get_type_hints(function, include_extras=True)
    text, said = described(function)
    fields: dict[str, Any] = {}
    for number, (parameter, one) in enumerate(inspect.signature(function).parameters.items()):
        if (number == 0 and parameter == "self") or parameter in leave_out:
            continue
        if one.kind is not inspect.Parameter.KEYWORD_ONLY:
            raise TypeError(f"{called}: {parameter} is not keyword-only")
        default = ... if one.default is inspect.Parameter.empty else one.default
        described_type = Annotated[hints[parameter], Field(description=said[parameter])] if parameter in said else hints[parameter]
        fields[parameter] = (described_type, default)
    model = create_model(f"{called}_arguments", __base__=Arguments, **fields)
    schema = plain_schema(model.model_json_schema())
    return Tool(called, function, model, ToolDefinition(called, text, schema))


def check_size(raw: str) -> None:
    """Raises ToolProblem for arguments that are longer than a call may be."""
    if len(raw) > MAX_ARGUMENT_CHARS:
        raise ToolProblem(
            "too_large", f"the arguments have {len(raw)} characters; send at most {MAX_ARGUMENT_CHARS}, in several calls"
        )


# --------------------------------------------------------------------------------------------------------------- docstrings


def described(function: Callable[..., Any]) -> tuple[str, dict[str, str]]:
    """What a docstring says of the function (with what it returns) and of each parameter."""
    text = inspect.getdoc(function)
    if not text:
        raise TypeError(f"{function.__name__} has no docstring")
    head, *rest = _SECTION.split(text)
    sections = {title: body.strip("\n") for title, body in zip(rest[::2], rest[1::2], strict=True)}
    words = " ".join(head.replace("``", "`").split())
    if "Returns" in sections:
        words += f" Returns: {' '.join(sections['Returns'].replace('``', '`').split())}"
    return words, _parameters(sections.get("Args", ""))


def _parameters(section: str) -> dict[str, str]:
    _, *rest = _PARAMETER.split(section)
    return {name: " ".join(text.replace("``", "`").split()) for name, text in zip(rest[::2], rest[1::2], strict=True)}


# ------------------------------------------------------------------------------------------------------------------ schemas


def plain_schema(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Without titles and references: what both providers take, as short as it can be."""
    definitions = cast("Mapping[str, Any]", schema.get("$defs", {}))

    def plain(part: Any, *, names: bool = False) -> Any:
        if isinstance(part, list):
            return [plain(one) for one in cast("list[Any]", part)]
        if not isinstance(part, dict):
            return part
        held = cast("dict[str, Any]", part)
        reference = held.get("$ref")
        if isinstance(reference, str) and not names:
            beside = {key: value for key, value in held.items() if key != "$ref"}
            return plain({**definitions[reference.rpartition("/")[2]], **beside})
        if not names:
            held = _without_null(held)
        return {
            key: plain(value, names=key == "properties" and not names)
            for key, value in held.items()
            if names or key not in ("title", "$defs")
        }

    made = cast("dict[str, Any]", plain(dict(schema)))
    made.setdefault("properties", {})
    made.pop("description", None)
    return made


def _without_null(part: dict[str, Any]) -> dict[str, Any]:
    """Optional parameters are left out and not said to be null; null is still taken."""
    choices = part.get("anyOf")
    if not isinstance(choices, list) or part.get("default", ...) is not None:
        return part
    real = [one for one in cast("list[Any]", choices) if one != {"type": "null"}]
    beside = {key: value for key, value in part.items() if key not in ("anyOf", "default")}
    return {**real[0], **beside} if len(real) == 1 else {"anyOf": real, **beside}
