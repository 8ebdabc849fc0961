"""One look for all figures: colours that colour-blind readers can distinguish, and one set of fonts."""

from __future__ import annotations

import unicodedata
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib import font_manager
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure

from bispectral_ot.files import whole_file

INK = "#1f2933"
MUTED = "#6b7785"
FAINT = "#d5dbe1"
RIGHT = "#12708c"
WRONG = "#d1552c"
# For up to ten classes: Petroff's cycle (2021), chosen by colour-blind and other readers; matplotlib's "petroff10".
CLASS_COLOURS = (
    "#3f90da",
    "#ffa90e",
    "#bd1f01",
    "#94a4a2",
    "#832db6",
    "#a96b59",
    "#e76300",
    "#b9ac70",
    "#717581",
    "#92dadd",
)

RIGHT_SHADES = LinearSegmentedColormap.from_list("right", ["#ffffff", "#a9d2dd", RIGHT, "#08404f"])
WRONG_SHADES = LinearSegmentedColormap.from_list("wrong", ["#ffffff", "#f5c4ab", WRONG, "#7d2b10"])

# DejaVu comes with matplotlib; the others, where the machine has them, draw the class names that it cannot.
_FONTS = (
    "DejaVu Sans",
    "Noto Sans CJK JP",
    "Noto Sans",
    "Arial Unicode MS",
    "Microsoft YaHei",
    "Hiragino Sans",
)
_DPI = 160


@contextmanager
def house_style() -> Iterator[None]:
    """Within this context every figure is drawn in the house style."""
    installed = set(font_manager.get_font_names())
    settings: dict[Any, Any] = {
        "font.family": [name for name in _FONTS if name in installed],
        "font.size": 9.0,
        "text.color": INK,
        "text.parse_math": False,  # a class may be called $5
        "axes.labelcolor": INK,
        "axes.edgecolor": FAINT,
        "axes.titlesize": 11.0,
        "axes.titleweight": "bold",
        "axes.titlelocation": "left",
        "axes.spines.top": False,
        "axes.spines.right": False,
        "xtick.color": MUTED,
        "ytick.color": MUTED,
        "xtick.labelcolor": INK,
        "ytick.labelcolor": INK,
        "grid.color": FAINT,
        "grid.linewidth": 0.6,
        "legend.frameon": False,
        "figure.facecolor": "white",
        "figure.constrained_layout.h_pad": 0.1,
        "figure.constrained_layout.w_pad": 0.1,
        "svg.hashsalt": "bispectral-ot",  # names inside an SVG come out the same every time
    }
    with matplotlib.rc_context(settings):
        yield


def printable(text: str) -> str:
    """The text with an escape for each letter that no font has: control characters, bytes that are no UTF-8."""
    letters = (letter if unicodedata.category(letter) not in ("Cc", "Cs") else repr(letter)[1:-1] for letter in text)
    return "".join(letters)


def save(figure: Figure, path: Path, *, kinds: Sequence[str] = ("png", "svg")) -> None:
    """Write a figure as PNG to look at and as SVG for papers; each file whole or not at all."""
    with house_style(), warnings.catch_warnings():
        # a letter that no font of this machine has is drawn as a box
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        for kind in kinds:
            with whole_file(path.with_suffix(f".{kind}")) as partial:
                # no date in the file: the same run gives the same figure
                figure.savefig(partial, format=kind, dpi=_DPI, metadata={"Date": None} if kind == "svg" else None)
