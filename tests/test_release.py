"""What a release consists of says the same everywhere: versions, requirements, supported Pythons."""

import re
import tomllib
from pathlib import Path

import pytest

import bispectral_ot

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
# Names that conda-forge has for packages of PyPI.
CONDA_NAMES = {"matplotlib": "matplotlib-base"}


@pytest.fixture(scope="module")
def recipe() -> dict:
    jinja2, yaml = pytest.importorskip("jinja2"), pytest.importorskip("yaml")
    text = (ROOT / "recipe" / "meta.yaml").read_text(encoding="utf-8")
    return yaml.safe_load(jinja2.Template(text).render(PYTHON="python"))


def split_requirement(requirement: str) -> tuple[str, str]:
    name, version = re.fullmatch(r"([\w.-]+)\s*(>=[\d.]+)", requirement).groups()
    return name.lower(), version


def test_the_recipe_asks_for_what_the_package_asks_for(recipe):
    wanted = {split_requirement(each) for each in PROJECT["dependencies"]}
    wanted = {(CONDA_NAMES.get(name, name), version) for name, version in wanted}
    run = {split_requirement(each) for each in recipe["requirements"]["run"]}
    assert run == wanted | {("python", PROJECT["requires-python"])}


def test_the_recipe_builds_this_version_and_runs_its_program(recipe):
    assert recipe["package"] == {"name": PROJECT["name"], "version": bispectral_ot.__version__}
    (script,) = PROJECT["scripts"].items()
    assert recipe["build"]["entry_points"] == [" = ".join(script)]
    assert (ROOT / recipe["about"]["license_file"]).is_file()
    verbs = [command.split()[1] for command in recipe["test"]["commands"]]
    from bispectral_ot.cli.main import app

    known = {each.name or each.callback.__name__ for each in app.registered_commands}
    assert set(verbs) <= known


def test_changelog_and_citation_name_this_version():
    heading = re.search(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert heading[1] == bispectral_ot.__version__
    assert f"\nversion: {bispectral_ot.__version__}\n" in (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    for name in ("LICENSE", "RELEASING.md", "SECURITY.md", "CODE_OF_CONDUCT.md", "CONTRIBUTING.md"):
        assert (ROOT / name).stat().st_size > 300


def test_the_extra_all_installs_every_extra():
    extras, found, waiting = PROJECT["optional-dependencies"], set(), ["all"]
    while waiting:
        name = waiting.pop()
        found.add(name)
        for requirement in extras[name]:
            if inner := re.fullmatch(r"bispectral-ot\[(.*)\]", requirement):
                waiting += inner[1].split(",")
    assert found == set(extras)
