"""Page of a run: one self-contained HTML file."""

import base64
import hashlib
import html
import re
from importlib.resources import files
from pathlib import Path
from typing import Any

from bispectral_ot._version import __version__
from bispectral_ot.drawing import CLASS_COLOURS, FAINT, INK, MUTED, RIGHT, WRONG, printable
from bispectral_ot.errors import InputError, warn
from bispectral_ot.files import read_json, write_text
from bispectral_ot.memory import format_bytes
from bispectral_ot.report.page_data import PAGE_DATA, compact_json, load_page_data
from bispectral_ot.report.tables import JsonObject
from bispectral_ot.runs import RECORD, REPORT, RESULTS

_SCRIPTS = (
    *("dom.js", "pictures.js", "gallery.js", "flow.js", "check.js", "map.js", "convergence.js"),
    *("sets.js", "pair.js", "comparison.js", "page.js"),
)
_TITLES = {
    **{"match": "Match of two datasets", "compare": "Comparison of datasets"},
    **{"upright": "Images rotated upright", "demo": "Rotated digits matched with upright ones"},
}
# Characters that a script element must not contain, as JSON's own escapes.
_UNSAFE = {letter: f"\\u{ord(letter):04x}" for letter in "<>&\u2028\u2029"}


def write_report(run: str | Path) -> Path:
    """Write ``report.html`` into the run folder of ``match``, ``compare``, ``upright`` or ``demo``."""
    folder = Path(run)
    if not folder.is_dir():
        raise InputError(f"{folder} is not a folder; give the run folder of match, compare, upright or demo.")
    if (folder / REPORT).is_dir():
        raise InputError(f"{folder / REPORT} is a folder, but the page is written there; rename the folder.")
    pages = _load_pages(folder)
    content = {
        **_run_words(folder),
        "panels": [page for page in pages if page["kind"] == "match"],
        "comparison": next((page for page in pages if page["kind"] == "comparison"), None),
        "class_colours": CLASS_COLOURS,
    }
    write_text(folder / REPORT, build_page(content))
    return folder / REPORT


def _load_pages(folder: Path) -> list[JsonObject]:
    """Page data of one run (``demo`` has several); a file that cannot be read is a warning, the only one an error."""
    runs = sorted(path.parent for path in folder.glob(f"*/{RECORD}"))
    if runs and not (folder / RECORD).is_file():
        raise InputError(f"{folder} contains runs but is not a run itself; give one of them, such as {runs[0]}.")
    found: list[JsonObject] = []
    failed: list[str] = []
    for path in sorted((*folder.glob(PAGE_DATA), *folder.glob(f"*/{PAGE_DATA}"))):
        if path.parent not in runs:
            try:
                found.append(load_page_data(path))
            except InputError as error:
                failed.append(f"{error} Make the run again for it; results.json, tables and figures are not affected.")
    if not found:
        raise InputError((*failed, f"{folder} is not a run, or has no {PAGE_DATA}; run the command again.")[0])
    for each in failed:
        warn(f"{each} The page is made without it.")
    return found


def build_page(content: JsonObject) -> str:
    """Fill the frame of the page; ``content`` is the input of its script."""
    assets = files("bispectral_ot.report") / "assets"

    def read(name: str) -> str:
        return assets.joinpath(*name.split("/")).read_text(encoding="utf-8")

    script = '"use strict";\n(() => {\n' + "\n".join(read(name) for name in _SCRIPTS) + "})();\n"
    library = read("echarts/echarts.min.js")
    colours = {"ink": INK, "muted": MUTED, "faint": FAINT, "right": RIGHT, "wrong": WRONG}
    palette = ":root{" + "".join(f"--{name}:{value};" for name, value in colours.items()) + "}\n"
    # nothing is fetched, and no script runs but those of the page
    digests = (base64.b64encode(hashlib.sha256(each.encode()).digest()).decode() for each in (library, script))
    allowed = " ".join(f"'sha256-{digest}'" for digest in digests)
    parts = {
        "policy": f"default-src 'none'; script-src {allowed}; style-src 'unsafe-inline'; img-src data: blob:",
        "version": __version__,
        "title": html.escape(content["title"]),
        "style": palette + read("page.css"),
        "data": embed_json(content),
        "library": library,
        "script": script,
    }
    # one pass: inserted text is not searched again
    return re.sub(r"\{\{(\w+)\}\}", lambda found: parts[found[1]], read("page.html"))


def embed_json(content: Any) -> str:
    """JSON that is safe inside a script element for any strings."""
    text = compact_json(content)
    for letter, escape in _UNSAFE.items():
        text = text.replace(letter, escape)
    # lone surrogates (bytes of a file name that are not text) cannot be written in UTF-8
    return text.encode("utf-8", "backslashreplace").decode()


def _run_words(folder: Path) -> JsonObject:
    """Title, origin and warnings of a run; a damaged file is a warning."""
    found: dict[str, JsonObject] = {RECORD: {}, RESULTS: {}}
    for name in found:
        if (folder / name).exists():
            try:
                found[name] = read_json(folder / name)
            except InputError as error:
                warn(f"{error} The page is made without it.")
    record, results = found.values()
    config, machine = (entry if isinstance(entry, dict) else {} for entry in map(record.get, ("config", "machine")))
    seconds, memory = record.get("wall_seconds"), record.get("peak_memory_bytes")
    about = [f"Made by bispectral-ot {record.get('bispectral_ot', __version__)}"]
    if "date" in record:
        about.append(f"on {str(record['date'])[:16].replace('T', ' ')} UTC")
    if isinstance(seconds, int | float) and isinstance(memory, int):
        about.append(f"in {seconds:.1f} s with a peak memory of {format_bytes(memory)}")
    if machine:
        about.append(f"on {machine.get('processor')} ({machine.get('cores')} cores)")
    told = results.get("warnings")
    return {
        "title": _TITLES.get(str(config.get("verb")), f"Report of {printable(folder.resolve().name)}"),
        "about": " ".join(about) + ".",
        "warnings": [str(warning) for warning in told] if isinstance(told, list) else [],
    }
