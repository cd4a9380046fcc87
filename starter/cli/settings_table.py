"""The table of settings, made from ``memory.settings``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import annotated_types
from pydantic import AliasChoices, SecretStr
from pydantic.fields import FieldInfo

from memory.settings import PREFIX, Settings


@dataclass(frozen=True, slots=True)
class SettingRow:
    """``names``: environment variables that set it, the project's own first. ``limits``: as ``1 to 20``, or empty."""

    names: tuple[str, ...]
    default: str
    limits: str
    description: str
    secret: bool


def setting_rows() -> list[SettingRow]:
    """Every setting in the order of ``memory.settings``."""
    return [_row(name, field) for name, field in Settings.model_fields.items()]


def current_values(settings: Settings) -> Mapping[str, str]:
    """By environment variable; a secret shows only whether it is set."""
    return {PREFIX + name.upper(): _show(getattr(settings, name)) for name in Settings.model_fields}


def markdown(rows: list[SettingRow]) -> str:
    """The README's table."""
    lines = ["| setting | default | meaning |", "|---|---|---|"]
    for row in rows:
        names = " or ".join(f"`{name}`" for name in row.names)
        meaning = row.description + (f"; {row.limits}" if row.limits else "")
        default = f"`{row.default}`" if row.default else "none"
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in (names, default, meaning)) + " |")
    return "\n".join(lines) + "\n"


def _row(name: str, field: FieldInfo) -> SettingRow:
    own = PREFIX + name.upper()
    others: tuple[str, ...] = ()
    if isinstance(field.validation_alias, AliasChoices):
        others = tuple(str(alias) for alias in field.validation_alias.choices if alias not in (name, own))
    return SettingRow(
        names=(own, *others),
        default=_show_default(field.get_default(call_default_factory=True)),
        limits=_limits(field),
        description=field.description or "",
        secret="SecretStr" in str(field.annotation),
    )


def _show_default(value: Any) -> str:
    if isinstance(value, SecretStr):
        return value.get_secret_value()
    return "" if value is None else _show(value)


def _show(value: Any) -> str:
    match value:
        case None:
            return ""
        case SecretStr():
            return "(set)" if value.get_secret_value() else "(empty)"
        case bool():
            return str(value).lower()
        case float():
            return f"{value:g}"
        case frozenset():
            return ",".join(sorted(str(item) for item in value))  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
        case _:
            return str(value)


def _limits(field: FieldInfo) -> str:
    low = high = ""
    for rule in field.metadata:
        match rule:
            case annotated_types.Gt():
                low = f"more than {_number(rule.gt)}"
            case annotated_types.Ge():
                low = f"{_number(rule.ge)} or more"
            case annotated_types.Lt():
                high = f"less than {_number(rule.lt)}"
            case annotated_types.Le():
                high = f"at most {_number(rule.le)}"
            case _:
                pass
    if low.endswith(" or more") and high.startswith("at most "):
        return f"{low.removesuffix(' or more')} to {high.removeprefix('at most ')}"
    return ", ".join(part for part in (low, high) if part)


def _number(value: Any) -> str:
    return f"{value:,g}" if isinstance(value, float) else f"{value:,}"
