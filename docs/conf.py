"""The site: ``make docs``. What is generated goes to docs/_generated, and the site itself to build/site."""

from __future__ import annotations

import inspect
import os
import re
import sys
import warnings
from pathlib import Path
from typing import Any

DOCS = Path(__file__).resolve().parent
os.environ["MPLBACKEND"] = "Agg"
os.environ["DASK_LOGGING__DISTRIBUTED"] = "error"  # every worker that starts and ends is news to it
sys.path.insert(0, str(DOCS))  # site_pages
sys.path.insert(0, str(DOCS.parent))  # studies
sys.path.insert(0, str(DOCS.parent / "src"))

from site_pages import write_commands, write_reference  # noqa: E402

from bispectral_ot import __version__  # noqa: E402

project = "bispectral-ot"
author = "The bispectral-ot developers"
copyright = f"2026, {author}"
release = version = __version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.napoleon",
    "sphinx_gallery.gen_gallery",
]
templates_path = ["_templates"]  # a class and its methods on one page, without a table of inherited ones
exclude_patterns = ["gallery", "results", "**/README.md", "**/*.ipynb", "_generated/gallery/*.zip"]
html_theme = "furo"
html_title = "bispectral-ot"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sourcelink = False
html_theme_options: dict[str, object] = {"top_of_page_buttons": []}
pygments_dark_style = "github-dark"  # furo's own underlines names of modules like links

myst_heading_anchors = 4
myst_enable_extensions = ["attrs_inline"]

autosummary_generate = True
autodoc_typehints = "none"  # docstrings have the types that matter to a reader; signatures stay short
autodoc_default_options = {"members": True}
autodoc_preserve_defaults = True
napoleon_google_docstring = False
napoleon_use_rtype = False
napoleon_use_param = False  # ``source, target`` stay together
napoleon_attr_annotations = False
_LISTED = "Properties"
napoleon_custom_sections = [_LISTED]
suppress_warnings = ["ref.python"]  # words of a description that are also names of attributes

sphinx_gallery_conf = {
    "examples_dirs": "gallery",
    "gallery_dirs": "_generated/gallery",
    "filename_pattern": r"\.py$",
    "within_subsection_order": "FileNameSortKey",
    "download_all_examples": False,
    "remove_config_comments": True,
    "show_memory": False,
    "plot_gallery": True,
    "abort_on_example_error": True,
    "min_reported_time": 1,
    "write_computation_times": False,
    "show_signature": False,
    "capture_repr": (),  # what is printed, not what the last line of a block happens to return
}


def show_warning(message: Warning | str, category: type[Warning], *_: object, **__: object) -> str:
    """A warning of a gallery script, without the place of the script on this machine."""
    return f"{category.__name__}: {message}\n"


warnings.formatwarning = show_warning


def for_the_site(app: Any, page: str, source: list[str]) -> None:
    """Pages are also read on a code host: there a script of the gallery is a file, and other folders are at hand."""
    text = re.sub(r"\]\(gallery/(plot_\w+)\.py\)", r"](_generated/gallery/\1.rst)", source[0])
    text = text.replace("](gallery/)", "](_generated/gallery/index.rst)")
    text = re.sub(r"\[\w+\.md\](\(\w+\.md[^)]*\))", r"[]\1", text)  # the title of a page instead of its file's name
    source[0] = re.sub(r"\[([^]]+)\]\(\.\./(?!program)[^)]*\)", r"\1", text)


def skip_defaults(app: Any, what: str, name: str, thing: Any, skip: bool, options: Any) -> bool | None:
    """Leave out fields of a class whose default is a function, and scikit-learn's requests for metadata."""
    requests = re.fullmatch("set_.*_request", name) is not None
    return True if requests or (inspect.isfunction(thing) and thing.__name__ != name) else None


def list_attributes(app: Any, what: str, name: str, thing: Any, options: Any, lines: list[str]) -> None:
    """Attributes as a list, and one-line parameters ``name : text`` with their text as the description.

    Napoleon accepts a single attribute name, and renders what follows the colon as a type.
    """
    lines[:] = [re.sub(r"docs/(\w+)\.md", r":doc:`/\1`", line) for line in lines]
    if "Parameters" in lines:
        lines[:] = described(lines, lines.index("Parameters") + 2)
    if "Attributes" not in lines:
        return
    start = lines.index("Attributes")
    later = (at for at in range(start + 2, len(lines) - 1) if re.fullmatch("-{3,}", lines[at + 1]))
    end = next(later, len(lines))
    listed = []
    for line in lines[start + 2 : end]:
        names, colon, text = line.partition(" : ")
        if line and not line.startswith(" "):
            listed += ["", f"- ``{names}``{colon and ': '}{text}"]
        else:
            listed.append("  " + line.strip())
    # a section of its own kind: napoleon would take a rubric here for one more parameter
    lines[start:end] = [_LISTED, "-" * len(_LISTED), *listed, ""]


def described(lines: list[str], start: int) -> list[str]:
    """Lines with the text of each one-line parameter, from ``start`` to the end of the section, on its own line."""
    found, inside = lines[:start], True
    for line, following in zip(lines[start:], [*lines[start + 1 :], ""], strict=True):
        inside = inside and not re.fullmatch("-{3,}", following)  # a title of the next section
        names, colon, text = line.partition(" : ")
        one_line = inside and colon and not line.startswith(" ") and not following.startswith(" ")
        found += [names, f"    {text}"] if one_line else [line]
    return found


def setup(app: Any) -> None:
    """Generate what is generated, and listen for pages."""
    generated = DOCS / "_generated"
    generated.mkdir(exist_ok=True)
    write_reference(DOCS.parent / "src" / "bispectral_ot" / "__init__.pyi", generated / "reference.md")
    write_commands(generated / "commands.md")
    app.connect("source-read", for_the_site)
    app.connect("autodoc-skip-member", skip_defaults)
    app.connect("autodoc-process-docstring", list_attributes, priority=400)  # before napoleon
