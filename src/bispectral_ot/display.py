"""Results as HTML, for notebooks: plain tables and small pictures, with every word from outside escaped."""

from __future__ import annotations

import base64
import html
import io
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

_LONGEST_SIDE = 48  # pixels of a picture
_LONGEST_NAME = 32
_STYLE = "display:inline-block;margin:4px 16px 4px 0;vertical-align:top"
_CELL = "padding:1px 6px;text-align:left;font-variant-numeric:tabular-nums"


def text(value: Any, *, longest: int = _LONGEST_NAME) -> str:
    """Anything as text that is safe in HTML, shortened where it is long."""
    words = str(value)
    short = words if len(words) <= longest else words[: longest - 1] + "…"
    return html.escape(short, quote=True)


def panel(title: str, facts: Mapping[str, Any], *parts: str) -> str:
    """A title, a table of facts, and parts that are HTML already, side by side."""
    rows = "".join(
        f'<tr><td style="{_CELL};opacity:.7">{text(name)}</td><td style="{_CELL}">{text(value, longest=80)}</td></tr>'
        for name, value in facts.items()
    )
    content = "".join(f'<div style="{_STYLE}">{part}</div>' for part in (f"<table>{rows}</table>", *parts) if part)
    return f"<div><strong>{text(title, longest=120)}</strong><div>{content}</div></div>"


def table(header: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """A table whose cells are escaped."""
    head = "".join(f'<th style="{_CELL}">{text(name)}</th>' for name in header)
    body = "".join("<tr>" + "".join(f'<td style="{_CELL}">{text(cell)}</td>' for cell in row) + "</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def heat_table(rows: Sequence[str], columns: Sequence[str], values: NDArray[Any], *, form: str = ".0%") -> str:
    """A table of numbers from 0 to the largest, each on a ground as dark as it is large."""
    highest = float(np.nanmax(values, initial=0.0)) or 1.0
    head = "".join(f'<th style="{_CELL}">{text(name, longest=10)}</th>' for name in columns)
    lines = []
    for name, row in zip(rows, values, strict=True):
        cells = "".join(
            f'<td style="{_CELL};background:rgba(52,101,164,{max(0.0, float(value)) / highest * 0.7:.2f})">'
            f"{format(float(value), form) if value > highest / 200 else ''}</td>"
            for value in np.nan_to_num(row)
        )
        lines.append(f'<tr><th style="{_CELL}">{text(name, longest=16)}</th>{cells}</tr>')
    return f"<table><thead><tr><th></th>{head}</tr></thead><tbody>{''.join(lines)}</tbody></table>"


def picture(pixels: NDArray[np.float64], *, caption: Any = "") -> str:
    """An image (height, width[, 3]) with pixels from 0 to 1, as a small one that is part of the page."""
    from PIL import Image

    image = Image.fromarray((pixels * 255).round().astype(np.uint8))
    image.thumbnail((_LONGEST_SIDE, _LONGEST_SIDE), Image.Resampling.BOX)
    file = io.BytesIO()
    image.save(file, format="png")
    scale = max(1, _LONGEST_SIDE // max(image.size))
    size = f'width="{image.width * scale}" height="{image.height * scale}"'
    data = base64.b64encode(file.getvalue()).decode("ascii")
    words = f'<br><small style="opacity:.7">{text(caption, longest=12)}</small>' if caption != "" else ""
    return (
        '<span style="display:inline-block;margin:2px;text-align:center">'
        f'<img alt="{text(caption)}" {size} style="image-rendering:pixelated" src="data:image/png;base64,{data}">'
        f"{words}</span>"
    )


def curve(values: Sequence[float], *, width: int = 160, height: int = 40) -> str:
    """A line through positive values on a logarithmic scale, as SVG."""
    points = np.log10(np.maximum(np.asarray(values, dtype=np.float64), 1e-300))
    if len(points) < 2:
        return ""
    low, high = float(points.min()), float(points.max())
    xs = np.linspace(2, width - 2, len(points))
    ys = height - 2 - (points - low) / ((high - low) or 1.0) * (height - 4)
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in zip(xs, ys, strict=True))
    return (
        f'<svg width="{width}" height="{height}" role="img" aria-label="marginal error after each pass, logarithmic">'
        f'<polyline points="{path}" fill="none" stroke="#3465a4" stroke-width="1.5"/></svg>'
    )
