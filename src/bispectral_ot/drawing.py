"""Figures of the library, of run folders and of notebooks, on matplotlib axes that functions take and return."""

import base64
import html
import io
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bispectral_ot.checks import printable as printable
from bispectral_ot.files import whole_file

if TYPE_CHECKING:
    from matplotlib.axes import Axes as Axes
else:
    Axes = Any  # matplotlib is loaded when something is drawn

INK, MUTED, FAINT = "#1f2933", "#6b7785", "#d5dbe1"
RIGHT, WRONG = "#12708c", "#d1552c"
_SHADES = {RIGHT: ("#ffffff", "#a9d2dd", RIGHT, "#08404f"), WRONG: ("#ffffff", "#f5c4ab", WRONG, "#7d2b10")}
# Petroff's cycle of ten colours (2021), which colour-blind readers can distinguish.
CLASS_COLOURS = (
    *("#3f90da", "#ffa90e", "#bd1f01", "#94a4a2", "#832db6"),
    *("#a96b59", "#e76300", "#b9ac70", "#717581", "#92dadd"),
)
# DejaVu comes with matplotlib; the others, if installed, have the letters that it lacks.
_FONTS = ("DejaVu Sans", "Noto Sans CJK JP", "Noto Sans", "Arial Unicode MS", "Microsoft YaHei", "Hiragino Sans")
_STYLE = {
    **{"font.size": 9.0, "axes.titlesize": 11.0, "axes.titleweight": "bold", "axes.titlelocation": "left"},
    **dict.fromkeys(("text.color", "axes.labelcolor", "xtick.labelcolor", "ytick.labelcolor"), INK),
    **dict.fromkeys(("xtick.color", "ytick.color"), MUTED),
    **dict.fromkeys(("axes.edgecolor", "grid.color"), FAINT),
    **dict.fromkeys(("axes.spines.top", "axes.spines.right", "legend.frameon"), False),
    "text.parse_math": False,  # a class may be called $5
    "figure.facecolor": "white",
}
_FIT = "natural size"
_TILE, _GAP = 96, 12  # pixels of a picture, and between pictures with their frames


def shortened(name: object, longest: int) -> str:
    """Printable name of at most ``longest`` letters, its middle left out."""
    text, end = printable(name), longest // 2
    return text if len(text) <= longest else f"{text[: longest - end - 1]}…{text[-end:]}"


@contextmanager
def house_style() -> Iterator[None]:
    """Context in which figures have the fonts and colours of this package."""
    import matplotlib
    from matplotlib import font_manager

    installed = set(font_manager.get_font_names())
    settings: dict[Any, Any] = {**_STYLE, "font.family": [name for name in _FONTS if name in installed]}
    with matplotlib.rc_context(settings):
        yield


def fitted_axes() -> Axes:
    """Axes of a new figure, unknown to pyplot, which takes the size of its content."""
    from matplotlib.figure import Figure

    return Figure(layout="constrained").add_subplot(label=_FIT)


def axes_for(ax: Axes | None, width: float, height: float) -> Axes:
    """Axes to draw on: those that are given, or those of a new figure of pyplot of this size in inches."""
    if ax is None:
        import matplotlib.pyplot as plt

        return plt.subplots(figsize=(width, height), layout="constrained")[1]
    if ax.get_label() == _FIT:
        ax.figure.set_size_inches(width, height)  # type: ignore[union-attr]
    return ax


def save(figure: Any, path: Path) -> None:
    """Write a figure as PNG, whole or not at all."""
    with house_style(), warnings.catch_warnings(), whole_file(path) as partial:
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        figure.savefig(partial, format="png", dpi=120, pil_kwargs={"compress_level": 4})


def colour_map(colour: str) -> Any:
    """Colour map from white to a dark shade of ``RIGHT`` or ``WRONG``."""
    from matplotlib.colors import LinearSegmentedColormap

    return LinearSegmentedColormap.from_list(colour, _SHADES[colour])


class Tile(NamedTuple):
    """Picture (height, width[, 3]) with pixels from 0 to 1, a caption, and whether it is right (None: unknown)."""

    picture: NDArray[np.float64]
    caption: str = ""
    right: bool | None = None


def tile_sheet(rows: Sequence[Sequence[Tile | None]], *, size: int = _TILE) -> NDArray[np.uint8]:
    """RGB image (height, width, 3) of rows of tiles, framed if known to be right or wrong; None leaves a gap."""
    step, line = size + _GAP, size + _GAP + size // 4
    sheet = np.full((len(rows) * line, max(map(len, rows)) * step, 3), 255, dtype=np.uint8)
    for (y, x), tile in _placed(rows):
        pixels = thumbnail(tile.picture, size, enlarge=True)
        height, width = pixels.shape[:2]
        top, left = y * line + 4 + (size - height) // 2, x * step + 4 + (size - width) // 2
        if tile.right is not None:
            frame = tuple(bytes.fromhex((RIGHT if tile.right else WRONG)[1:]))
            sheet[top - 4 : top + height + 4, left - 4 : left + width + 4] = frame
        sheet[top : top + height, left : left + width] = pixels.reshape(height, width, -1)
    return sheet


def _placed(rows: Sequence[Sequence[Tile | None]]) -> Iterator[tuple[tuple[int, int], Tile]]:
    """Row and column of each tile."""
    return (((y, x), tile) for y, row in enumerate(rows) for x, tile in enumerate(row) if tile is not None)


def thumbnail(picture: NDArray[np.float64], longest: int, *, enlarge: bool = False) -> NDArray[np.uint8]:
    """Pixels from 0 to 1 as bytes, the longer side at most ``longest``; small pictures enlarged by a whole factor."""
    from PIL import Image

    image = Image.fromarray((np.clip(picture, 0, 1) * 255).round().astype(np.uint8))
    longer, scale = max(image.size), 1.0
    if enlarge or longer > longest:
        scale = longest / longer if longer > longest else longest // longer
    shape = max(1, round(image.width * scale)), max(1, round(image.height * scale))
    return np.asarray(image.resize(shape, Image.Resampling.BOX if scale < 1 else Image.Resampling.NEAREST))


def draw_tiles(ax: Axes | None, rows: Sequence[Sequence[Tile | None]], *, title: str = "") -> Axes:
    """Rows of pictures with their captions below."""
    ax = axes_for(ax, 0.4 + 0.85 * max(map(len, rows)), 0.7 + 1.02 * len(rows))
    ax.imshow(tile_sheet(rows), interpolation="antialiased")
    for (y, x), tile in _placed(rows):
        mark, colour = {True: ("✓ ", RIGHT), False: ("✗ ", WRONG), None: ("", MUTED)}[tile.right]
        at = x * (_TILE + _GAP) + 4 + _TILE / 2, y * (_TILE + _GAP + _TILE // 4) + _TILE + 10
        caption = mark + tile.caption if tile.caption else ""
        ax.text(*at, caption, ha="center", va="top", fontsize=7, color=colour, parse_math=False)
    ax.set_title(title)
    ax.set_axis_off()
    return ax


def draw_matrix(
    ax: Axes | None,
    values: NDArray[Any],
    rows: Sequence[str],
    columns: Sequence[str],
    *,
    form: str,
    title: str,
    own: NDArray[np.bool_] | None = None,
) -> Axes:
    """Heat map with its numbers in a format ("%" multiplies by 100) if there is room; cells not ``own`` in red."""
    many = max(len(rows), len(columns))
    cell = 0.46 if many <= 12 else min(0.34, 14 / many)
    ax = axes_for(ax, 2.0 + cell * len(columns), 1.7 + cell * len(rows))
    inside = np.ones(values.shape, dtype=np.bool_) if own is None else own
    highest = float(np.nanmax(values, initial=0.0)) or 1.0
    for mask, colour in ((inside, RIGHT), (~inside, WRONG)):
        if mask.any():
            ax.imshow(np.ma.masked_array(values, ~mask), cmap=colour_map(colour), vmin=0, vmax=highest)
    if many <= 30:
        for (i, j), value in np.ndenumerate(values):
            number = format(100 * value, ".0f") if form == "%" else format(value, form)
            if np.isfinite(value) and (form != "%" or value >= 0.005):
                colour = "white" if value > 0.45 * highest else INK
                ax.text(j, i, number, ha="center", va="center", fontsize=min(8, 18 * cell), color=colour)
    ax.set_yticks(*_ticks(rows), parse_math=False)
    ax.set_xticks(*_ticks(columns), rotation=90 if max(map(len, columns)) > 3 else 0, parse_math=False)
    ax.xaxis.tick_top()
    ax.tick_params(length=0, pad=2)
    ax.spines[:].set_visible(False)
    ax.set_title(title)
    return ax


def _ticks(names: Sequence[str]) -> tuple[list[int], list[str]]:
    step = -(-len(names) // 50)  # at most 50 ticks
    return list(range(0, len(names), step)), [shortened(name, 20) for name in names[::step]]


def html_panel(title: str, facts: Mapping[str, Any], *parts: str) -> str:
    """HTML of a title, a table of facts, and parts that are already HTML, side by side."""
    cell = '<td style="padding:1px 6px;text-align:left;font-variant-numeric:tabular-nums">{}</td>'
    rows = ("".join(cell.format(html.escape(shortened(each, 80))) for each in row) for row in facts.items())
    table = f"<table>{''.join(f'<tr>{row}</tr>' for row in rows)}</table>"
    style = "display:inline-block;margin:4px 16px 4px 0;vertical-align:top"
    content = "".join(f'<div style="{style}">{part}</div>' for part in (table, *parts) if part)
    return f"<div><strong>{html.escape(shortened(title, 120))}</strong><div>{content}</div></div>"


def frame_html(table: Any) -> str:
    """HTML of ``table.to_frame()``: the ``_repr_html_`` of tables, for notebooks."""
    return str(table.to_frame()._repr_html_())


def html_tiles(rows: Sequence[Sequence[Tile | None]], *, size: int = 48) -> str:
    """Rows of pictures as one image that is part of the page."""
    from PIL import Image

    image, file = Image.fromarray(tile_sheet(rows, size=size)), io.BytesIO()
    image.save(file, format="png")
    captions = "; ".join(", ".join(tile.caption for tile in row if tile and tile.caption) for row in rows)
    data, words = base64.b64encode(file.getvalue()).decode("ascii"), html.escape(shortened(captions, 400))
    return f'<img alt="{words}" title="{words}" width="{image.width}" src="data:image/png;base64,{data}">'
