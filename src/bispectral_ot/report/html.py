"""The browser report: one HTML file that needs nothing else, made from what a run has kept."""

from __future__ import annotations

import base64
import hashlib
import html
import json
import re
import warnings
from collections.abc import Callable, Iterable, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from bispectral_ot._version import __version__
from bispectral_ot.checks import check_entries
from bispectral_ot.errors import DataWarning, InputError
from bispectral_ot.files import to_json, write_text
from bispectral_ot.memory import format_bytes
from bispectral_ot.report.comparison_page import FILE as COMPARISON
from bispectral_ot.report.comparison_page import ComparisonData
from bispectral_ot.report.page_data import FILE, PageData
from bispectral_ot.report.style import CLASS_COLOURS, FAINT, INK, MUTED, RIGHT, WRONG
from bispectral_ot.report.thumbnails import sprite_sheet
from bispectral_ot.runs import REPORT

Result = TypeVar("Result")
# One page is at most this large; pictures are left out until it is.
_MOST_BYTES = 9_500_000
_MOST_FIGURE_BYTES = 6_000_000
_SCRIPTS = (
    *("dom.js", "pictures.js", "gallery.js", "flow.js", "map.js", "convergence.js"),
    *("sets.js", "pair.js", "comparison.js", "page.js"),
)
# The page draws matches itself, but not these.
_NOT_DRAWN = ("shares.png", "unmatched.png", "doubtful.png", "poses*.png")
# What a script element must not contain, as JSON's own escapes.
_UNSAFE = {ord(letter): f"\\u{ord(letter):04x}" for letter in "<>&\u2028\u2029"}


def write_report(run: str | Path, *, most_bytes: int = _MOST_BYTES) -> Path:
    """Write ``report.html`` into a run folder and return its path.

    Parameters
    ----------
    run
        Folder that ``match``, ``compare``, ``demo`` or ``study`` has written.
    most_bytes
        Size of the page at most; fewer images are shown until it fits.

    Raises
    ------
    InputError
        If the folder is not one run, or has nothing that a report could show.
    """
    folder = Path(run)
    if not folder.is_dir():
        raise InputError(f"{folder} is not a folder; give the folder that match, compare, demo or study has written.")
    if (folder / REPORT).is_dir():
        raise InputError(f"{folder / REPORT} is a folder, but the page goes there; move it away.")
    kept = _kept_matches(folder)
    matches = _readable(PageData.load, kept)
    comparisons = _readable(ComparisonData.load, [path for path in [folder / COMPARISON] if path.is_file()])
    figures = _NOT_DRAWN if matches else () if comparisons else ("[!.]*.png",)
    content = _run_content(folder, figures=figures, without=("comparison.md",) if comparisons else ())
    if not (matches or comparisons or content["figures"] or content["tables"]):
        if kept:
            PageData.load(kept[0])  # says what is wrong with it
        raise InputError(f"{folder} is no run, or one without {FILE}, tables and figures; make it again with --report.")
    share = 1.0
    while True:
        comparison = _shown(comparisons[0].reduced(share)) if comparisons else None
        page = build_page(content | {"groups": _groups(matches, share), "comparison": comparison})
        if len(page.encode()) <= most_bytes or share < 0.01:
            break
        share *= 0.7
    write_text(folder / REPORT, page)
    return folder / REPORT


def _readable(read: Callable[[Path], Result], paths: Iterable[Path]) -> list[Result]:
    """What can be read; a warning names each file that cannot, and the page is made without it."""
    found = []
    for path in paths:
        try:
            found.append(read(path))
        except InputError as error:
            warnings.warn(f"{error} The page is made without it.", DataWarning, stacklevel=3)
        except (OSError, ValueError) as error:
            warnings.warn(f"{path} is damaged ({error}). The page is made without it.", DataWarning, stacklevel=3)
    return found


def _kept_matches(folder: Path) -> list[Path]:
    """Files with the matches of one run: ``match`` has one, ``demo`` one for each kind of features, a study its cells.

    Runs inside the folder are runs of their own.
    """
    runs = sorted(path.parent for path in folder.glob("*/run.json"))
    if runs and not (folder / "run.json").is_file():
        raise InputError(f"{folder} holds runs but is none itself; give one of them, such as {runs[0]}.")
    found = [path for pattern in ("", "*/", "report/*/") for path in folder.glob(pattern + FILE)]
    return sorted(path for path in found if path.parent not in runs)


def build_page(content: dict[str, Any]) -> str:
    """Fill the page's frame; ``content`` is what its script reads."""
    assets = files("bispectral_ot.report") / "assets"

    def read(name: str) -> str:
        return assets.joinpath(*name.split("/")).read_text(encoding="utf-8")

    script = '"use strict";\n(() => {\n' + "\n".join(read(name) for name in _SCRIPTS) + "})();\n"
    library = read("echarts/echarts.min.js")
    colours = {"ink": INK, "muted": MUTED, "faint": FAINT, "right": RIGHT, "wrong": WRONG}
    palette = ":root{" + "".join(f"--{name}:{value};" for name, value in colours.items()) + "}\n"
    parts = {
        "policy": _policy(library, script),
        "version": __version__,
        "title": html.escape(content["title"]),
        "style": palette + read("page.css"),
        "data": embed_json(content | {"class_colours": CLASS_COLOURS}),
        "library": library,
        "script": script,
    }
    # one pass: what was put in is not searched again
    return re.sub(r"\{\{(\w+)\}\}", lambda found: parts[found[1]], read("page.html"))


def embed_json(content: Any) -> str:
    """JSON that is safe inside a script element, whatever its strings are."""
    compact = json.dumps(json.loads(to_json(content)), ensure_ascii=False, separators=(",", ":"))
    # lone surrogates (bytes of a file name that are no text) cannot be written in UTF-8
    return compact.translate(_UNSAFE).encode("utf-8", "backslashreplace").decode()


def _policy(*scripts: str) -> str:
    """Nothing may be fetched, and no script may run but the page's own."""
    digests = (base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() for script in scripts)
    allowed = " ".join(f"'sha256-{digest}'" for digest in digests)
    return f"default-src 'none'; script-src {allowed}; style-src 'unsafe-inline'; img-src data: blob:"


def _groups(matches: list[PageData], share: float) -> list[dict[str, Any]]:
    """Matches of the same two sides together, with one sheet of pictures."""
    by_sides: dict[tuple[str, int], list[PageData]] = {}
    for match in matches:
        # sets of the same name may be others: drawn with another seed, say
        by_sides.setdefault((match.content["group"], match.content.get("checksum", 0)), []).append(match.reduced(share))
    names = [name for name, _ in by_sides]
    titles = [n if names.count(n) == 1 else f"{n} ({names[: i + 1].count(n)})" for i, n in enumerate(names)]
    return [{"title": title, **_group(members)} for title, members in zip(titles, by_sides.values(), strict=True)]


def _group(members: list[PageData]) -> dict[str, Any]:
    slots: dict[tuple[str, int], int] = {}
    pictures: list[NDArray[np.uint8]] = []
    panels = []
    for match in members:
        panel = dict(match.content)
        for side, thumbnails in (("sources", match.source_pictures), ("targets", match.target_pictures)):
            places = []
            for index, picture in zip(panel[side]["index"], thumbnails, strict=True):
                if (side, index) not in slots:
                    slots[side, index] = len(pictures)
                    pictures.append(picture)
                places.append(slots[side, index])
            panel[side] = panel[side] | {"picture": places}
        panels.append(panel)
    return {"panels": panels, "sheet": _sheet(np.stack(pictures))}


def _shown(comparison: ComparisonData) -> dict[str, Any]:
    return comparison.content | {"sheet": _sheet(comparison.pictures)}


def _sheet(pictures: NDArray[np.uint8]) -> dict[str, Any]:
    sheet = sprite_sheet(pictures)
    fields = {"columns": sheet.columns, "width": sheet.width, "height": sheet.height}
    return fields | {"png": base64.b64encode(sheet.png).decode()}


def _run_content(folder: Path, *, figures: Sequence[str], without: Sequence[str] = ()) -> dict[str, Any]:
    """Title, origin, warnings, figures and tables of a run, ``without`` those that its page draws itself."""
    record, results = (_read_entries(folder / name) for name in ("run.json", "results.json"))
    config, machine = (entry if isinstance(entry, dict) else {} for entry in map(record.get, ("config", "machine")))
    seconds, memory = record.get("wall_seconds"), record.get("peak_memory_bytes")
    verb = str(config.get("verb", "run"))
    about = [f"Made by bispectral-ot {record.get('bispectral_ot', __version__)}"]
    if "date" in record:
        about.append(f"on {record['date']}")
    if isinstance(seconds, int | float) and isinstance(memory, int):
        about.append(f"in {seconds:.1f} s with a peak memory of {format_bytes(memory)}")
    if machine:
        about.append(f"on {machine.get('processor')} ({machine.get('cores')} cores)")
    told = results.get("warnings")
    pictures, left_out = _figures(folder, figures)
    tables = [path for path in sorted(folder.glob("*.md")) if path.name[0] != "." and path.name not in without]
    return {
        "title": _TITLES.get(verb, f"Report of {folder.resolve().name}"),
        "about": " ".join(about) + ".",
        "warnings": [str(warning) for warning in told] if isinstance(told, list) else [],
        "tables": _readable(lambda path: {"file": path.name, "blocks": read_markdown(path)}, tables),
        "figures": pictures,
        "figures_left_out": left_out,
    }


_TITLES = {
    "match": "Match of two datasets",
    "compare": "Comparison of datasets",
    "upright": "Images put upright",
    "demo": "Turned digits matched with upright ones",
}


def _read_entries(path: Path) -> dict[str, Any]:
    """The content of a JSON file; nothing where there is none, or a damaged one."""

    def read(path: Path) -> dict[str, Any]:
        content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        check_entries(content, {})
        return content

    return next(iter(_readable(read, [path] if path.exists() else [])), {})


def _figures(folder: Path, patterns: Sequence[str]) -> tuple[list[dict[str, str]], list[str]]:
    """Pictures of the run as far as they fit, and the names of the others."""
    kept, left_out, used = [], [], 0
    pictures = [path for pattern in patterns for path in sorted((folder / "figures").glob(pattern))]
    for path, content in _readable(lambda path: (path, path.read_bytes()), pictures):
        if used + len(content) > _MOST_FIGURE_BYTES:
            left_out.append(path.name)
            continue
        used += len(content)
        kept.append({"name": path.stem, "png": base64.b64encode(content).decode()})
    return kept, left_out


def read_markdown(path: Path) -> list[dict[str, Any]]:
    """Headings, tables and paragraphs of the Markdown files that this program writes."""
    blocks: list[dict[str, Any]] = []
    for part in re.split(r"\n\s*\n", path.read_text(encoding="utf-8").strip()):
        lines = part.splitlines()
        while lines and lines[0].startswith("#"):
            blocks.append({"kind": "heading", "text": lines.pop(0).lstrip("# ")})
        if lines and lines[0].startswith("|"):
            cells = [[cell.strip().replace("**", "") for cell in line.strip("| ").split("|")] for line in lines]
            blocks.append({"kind": "table", "header": cells[0], "rows": cells[2:]})
        elif lines:
            blocks.append({"kind": "text", "text": " ".join(lines)})
    return blocks
