"""Draws a dashboard's JSON from a Prometheus: its panels, queries, units and layout, in a plain form. No Grafana is needed."""

from __future__ import annotations

import math
import re
from datetime import UTC, datetime
from io import BytesIO
from pathlib import Path
from typing import Any

import httpx2
import matplotlib as mpl

mpl.use("agg")
import matplotlib.dates as mdates
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator
from PIL import Image

from tests.deploy.monitoring import filled_in

Series = dict[str, Any]
COLUMN, LINE = 0.62, 0.30
"""Inches of a unit of Grafana's grid."""
BACK, PAPER, INK, FAINT = "#111217", "#181b1f", "#d8d9da", "#6e7076"
COLORS = ("#73bf69", "#f2cc0c", "#5794f2", "#ff9830", "#f2495c", "#b877d9", "#8ab8ff", "#fade2a", "#96d98d", "#ca95e5")
NAMED = {"green": "#73bf69", "orange": "#ff9830", "red": "#f2495c", "blue": "#5794f2"}
MOST_LINES = 7


class Prometheus:
    """Asks a running server. ``rate`` and ``span`` stand for Grafana's variables."""

    def __init__(self, url: str, *, rate: str, span: str) -> None:
        self._http = httpx2.Client(base_url=url, timeout=30)
        self._rate, self._span = rate, span

    def instant(self, expression: str) -> list[Series]:
        return self._ask("/api/v1/query", query=filled_in(expression, rate=self._rate, span=self._span))

    def over(self, expression: str, begin: float, end: float, step: float) -> list[Series]:
        query = filled_in(expression, rate=self._rate, span=self._span)
        return self._ask("/api/v1/query_range", query=query, start=begin, end=end, step=step)

    def close(self) -> None:
        self._http.close()

    def _ask(self, path: str, **parameters: Any) -> list[Series]:
        reply = self._http.get(path, params=parameters)
        found = reply.json()
        assert found["status"] == "success", (parameters, found)
        return found["data"]["result"]


def shown(value: float, unit: str) -> str:
    """As Grafana would, near enough."""
    if math.isnan(value):
        return "–"
    match unit:
        case "percentunit":
            return f"{100 * value:.3g} %"
        case "s":
            if value >= 120:
                return f"{value / 60:.3g} min"
            return f"{value:.3g} s" if value >= 1 or value == 0 else f"{1000 * value:.3g} ms"
        case "currencyUSD":
            return f"${value:.4f}" if 0 < value < 0.1 else f"${value:.2f}"
        case "bytes":
            return f"{value / 1024:.3g} KiB" if value >= 1024 else f"{value:.0f} B"
        case _:
            if abs(value) >= 1_000_000:
                return f"{value / 1_000_000:.3g} M"
            return f"{value / 1000:.3g} K" if abs(value) >= 1000 else f"{value:.3g}"


def legend(target: dict[str, Any], labels: dict[str, str]) -> str:
    text = target["legendFormat"]
    if text == "__auto":
        return " ".join(labels.values()) or target["expr"][:24]
    return " ".join(re.sub(r"\{\{(\w+)\}\}", lambda found: labels.get(found[1], ""), text).split())


def draw(board: dict[str, Any], source: Prometheus, *, begin: float, end: float, to: Path) -> dict[str, int]:
    """Write the picture. Returns for each panel how many series it has."""
    height = max(panel["gridPos"]["y"] + panel["gridPos"]["h"] for panel in board["panels"])
    figure = Figure(figsize=(24 * COLUMN, height * LINE + 0.5), facecolor=BACK)
    filled: dict[str, int] = {}
    total = height * LINE + 0.5
    figure.text(0.008, 1 - 0.3 / total, board["title"], color=INK, fontsize=13, weight="bold", va="center")
    for panel in board["panels"]:
        place = panel["gridPos"]
        left, top = place["x"] / 24, (total - 0.5 - place["y"] * LINE) / total
        width, tall = place["w"] / 24, place["h"] * LINE / total
        if panel["type"] == "row":
            figure.text(0.008, top - tall / 2, f"▾ {panel['title']}", color=INK, fontsize=10, va="center", weight="bold")
            continue
        pad = 0.003
        axes = figure.add_axes((left + pad, top - tall + pad / 2, width - 2 * pad, tall - pad), facecolor=PAPER)
        axes.set_xticks([])
        axes.set_yticks([])
        for edge in axes.spines.values():
            edge.set_color("#2c3235")
        axes.text(
            0.02, 1 - 0.12 / (place["h"] * LINE), panel["title"], transform=axes.transAxes, color=INK, fontsize=8, va="center"
        )
        kind = {"stat": _stat, "timeseries": _lines, "bargauge": _bars, "table": _table}[panel["type"]]
        filled[panel["title"]] = kind(figure, axes, panel, source, begin, end)
    whole = BytesIO()
    figure.savefig(whole, dpi=96, facecolor=BACK)
    # Few colours: a fifth of the size.
    Image.open(whole).convert("RGB").quantize(96, dither=Image.Dither.NONE).save(to, optimize=True)
    return filled


def _stat(_: Figure, axes: Axes, panel: dict[str, Any], source: Prometheus, begin: float, end: float) -> int:
    found = source.instant(panel["targets"][0]["expr"])
    defaults = panel["fieldConfig"]["defaults"]
    text, color = defaults.get("noValue", "none"), FAINT
    if found:
        value = float(found[0]["value"][1])
        text = shown(round(value) if defaults.get("decimals") == 0 else value, defaults["unit"])
        reached = [step["color"] for step in defaults["thresholds"]["steps"] if step["value"] is None or value >= step["value"]]
        color = NAMED[reached[-1]]
    axes.text(0.5, 0.4, text, transform=axes.transAxes, color=color, fontsize=17, ha="center", va="center", weight="bold")
    return len(found)


def _lines(figure: Figure, frame: Axes, panel: dict[str, Any], source: Prometheus, begin: float, end: float) -> int:
    defaults = panel["fieldConfig"]["defaults"]
    unit, stacked = defaults["unit"], defaults["custom"]["stacking"]["mode"] == "normal"
    step = max(1.0, (end - begin) / 240)
    lines: list[tuple[str, list[tuple[float, float]]]] = []
    for target in panel["targets"]:
        for one in source.over(target["expr"], begin, end, step):
            points = [(at, float(value)) for at, value in one["values"]]
            lines.append((legend(target, {k: v for k, v in one["metric"].items() if k != "__name__"}), points))
    lines.sort(key=lambda line: -max((value for _, value in line[1] if not math.isnan(value)), default=0))
    box = frame.get_position()
    axes = figure.add_axes(
        (
            box.x0 + 0.16 * box.width * min(1, 8 / panel["gridPos"]["w"]),
            box.y0 + 0.40 * box.height,
            0.80 * box.width,
            0.46 * box.height,
        ),
        facecolor=PAPER,
    )
    axes.tick_params(colors=FAINT, labelsize=6.5, length=2)
    for edge in axes.spines.values():
        edge.set_color("#2c3235")
    axes.grid(color="#2c3235", linewidth=0.5)
    axes.set_xlim(_time(begin), _time(end))
    below: dict[float, float] = {}
    highest = 0.0
    for number, (name, points) in enumerate(lines):
        color = COLORS[number % len(COLORS)]
        times = [_time(at) for at, _ in points]
        values = [value for _, value in points]
        if stacked:
            base = [below.get(at, 0.0) for at, _ in points]
            top = [low + (0 if math.isnan(value) else value) for low, value in zip(base, values, strict=True)]
            axes.fill_between(times, base, top, color=color, alpha=0.45, linewidth=0)
            axes.plot(times, top, color=color, linewidth=0.8)
            below.update({at: high for (at, _), high in zip(points, top, strict=True)})
            highest = max([highest, *top])
        else:
            axes.plot(times, values, color=color, linewidth=1.1)
            highest = max([highest, *(value for value in values if not math.isnan(value))])
        if number < MOST_LINES:
            last = next((value for value in reversed(values) if not math.isnan(value)), math.nan)
            x, y = (0.03, 0.51)[number % 2 if len(lines) > 3 else 0], 0.27 - 0.07 * (number // 2 if len(lines) > 3 else number)
            wide = 30 if len(lines) > 3 else 64
            frame.text(
                x, y, f"━ {name[:wide]}  {shown(last, unit)}", transform=frame.transAxes, color=color, fontsize=6.6, va="center"
            )
    if len(lines) > MOST_LINES:
        frame.text(
            0.51, 0.06, f"and {len(lines) - MOST_LINES} more", transform=frame.transAxes, color=FAINT, fontsize=6.6, va="center"
        )
    limit = panel["fieldConfig"]["defaults"]["thresholds"]["steps"][-1]["value"]
    if limit is not None and limit <= 3 * highest:
        axes.axhline(limit, color=NAMED["red"], linewidth=0.8, linestyle="--")
        highest = max(highest, limit)
    axes.set_ylim(0, highest * 1.1 or 1)
    axes.xaxis.set_major_formatter(mdates.DateFormatter("%H:%M:%S", tz=UTC))
    axes.xaxis.set_major_locator(mdates.AutoDateLocator(minticks=3, maxticks=6))
    axes.yaxis.set_major_locator(MaxNLocator(4))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: shown(value, unit)))
    if not lines:
        axes.text(0.5, 0.5, "no data", transform=axes.transAxes, color=FAINT, fontsize=8, ha="center", va="center")
    return len(lines)


def _bars(_: Figure, frame: Axes, panel: dict[str, Any], source: Prometheus, begin: float, end: float) -> int:
    target, unit = panel["targets"][0], panel["fieldConfig"]["defaults"]["unit"]
    found = [(legend(target, one["metric"]), float(one["value"][1])) for one in source.instant(target["expr"])]
    found.sort(key=lambda one: -one[1])
    most = max((value for _, value in found), default=1) or 1
    for number, (name, value) in enumerate(found[:12]):
        y = 0.84 - number * 0.07
        frame.text(0.03, y, name[:34], transform=frame.transAxes, color=INK, fontsize=6, va="center")
        frame.barh(y, 0.40 * value / most, left=0.42, height=0.045, color=COLORS[2], transform=frame.transAxes)
        frame.text(0.97, y, shown(value, unit), transform=frame.transAxes, color=INK, fontsize=6, va="center", ha="right")
    if not found:
        frame.text(0.5, 0.5, "no data", transform=frame.transAxes, color=FAINT, fontsize=8, ha="center", va="center")
    return len(found)


def _table(_: Figure, frame: Axes, panel: dict[str, Any], source: Prometheus, begin: float, end: float) -> int:
    found = source.instant(panel["targets"][0]["expr"])
    rows = [one["metric"] for one in found]
    for number, labels in enumerate(sorted(rows, key=lambda one: (one["severity"], one["alertname"]))[:6]):
        rest = ", ".join(
            f"{k}={v}" for k, v in labels.items() if k not in {"__name__", "alertname", "alertstate", "severity", "job", "instance"}
        )
        color = NAMED["red"] if labels["severity"] == "critical" else NAMED["orange"]
        frame.text(0.02, 0.72 - 0.13 * number, labels["severity"], transform=frame.transAxes, color=color, fontsize=7, va="center")
        frame.text(
            0.10,
            0.72 - 0.13 * number,
            f"{labels['alertname']}  {rest}",
            transform=frame.transAxes,
            color=INK,
            fontsize=7,
            va="center",
        )
    if not rows:
        frame.text(0.02, 0.6, "none", transform=frame.transAxes, color=FAINT, fontsize=8, va="center")
    return len(rows)


def _time(at: float) -> datetime:
    return datetime.fromtimestamp(at, UTC)
