"""The page as a file: what it holds, that it is safe, and what damaged runs give."""

import json
import re

import pytest

from bispectral_ot.errors import DataWarning, InputError
from bispectral_ot.report.page import embed_json, write_report
from report_runs import HOSTILE, blobs, make_run, page_content

THREE = ("a", "b", "c")


def panels(path):
    return page_content(path)["panels"]


@pytest.mark.parametrize("text", [*HOSTILE, "<!--", "]]>", "\udc80"])
def test_embedded_json_has_no_markup_and_reads_back(text):
    embedded = embed_json({text: [text]})
    assert not set(embedded) & set("<>&\u2028\u2029")
    assert json.loads(embedded) == {text: [text]}


def test_page_is_one_file_that_fetches_nothing(tmp_path):
    path = write_report(make_run(tmp_path / "run", blobs(12, HOSTILE, seed=0), blobs(15, HOSTILE, seed=1)))
    text = path.read_text("utf-8")
    assert "default-src 'none'" in text
    frame = text.split('id="data"')[0]
    assert "{{" not in frame
    assert not re.search(r"<(link|iframe|img|script)[^>]+(src|href)=", frame)
    assert "hacked=1</script>" not in text
    assert panels(path)[0]["rows"] == list(HOSTILE)


def test_a_run_inside_a_run_is_another(tmp_path):
    sides = blobs(6, THREE, seed=0), blobs(6, THREE, seed=1)
    run = make_run(tmp_path / "run", *sides, "outer")
    inner = make_run(run / "second", *sides)
    (inner / "pixels" / "page-data.json").rename(inner / "page-data.json")
    assert [panel["title"] for panel in panels(write_report(run))] == ["outer"]
    (run / "run.json").unlink()
    with pytest.raises(InputError, match=r"contains runs but is not a run itself; give one .* such as .*second[.]$"):
        write_report(run)


def test_folders_without_data_or_with_nothing_but_damaged_files_are_refused(tmp_path):
    with pytest.raises(InputError, match="not a folder"):
        write_report(tmp_path / "absent")
    with pytest.raises(InputError, match="is not a run"):
        write_report(tmp_path)
    (tmp_path / "page-data.json").write_bytes(b"no record")
    with pytest.raises(InputError, match=r"results\.json, tables and figures are not affected"):
        write_report(tmp_path)
    (tmp_path / "report.html").mkdir()
    with pytest.raises(InputError, match=r"report\.html is a folder"):
        write_report(tmp_path)


DEEP = b'{"a":' * 100_000 + b"1" + b"}" * 100_000


@pytest.fixture
def damaged_run(tmp_path):
    run = make_run(tmp_path / "run", blobs(6, THREE, seed=0), blobs(6, THREE, seed=1), "whole", "broken")
    (run / "results.json").write_text('{"warnings": ["one"]}')
    return run


@pytest.mark.parametrize("content", [b"\xff\xfe\xfd", DEEP, None])
def test_damaged_files_are_named_and_left_out(damaged_run, content):
    def damage(path):
        path.unlink()
        path.mkdir() if content is None else path.write_bytes(content)

    for name in ("run.json", "results.json"):
        damage(damaged_run / name)
        with pytest.warns(DataWarning, match=rf"{name}.* The page is made without it"):
            assert len(panels(write_report(damaged_run))) == 2
    if content is not None:
        damage(damaged_run / "broken" / "page-data.json")
        with pytest.warns(DataWarning, match=r"broken/page-data\.json is damaged.* The page is made without it"):
            assert [panel["title"] for panel in panels(write_report(damaged_run))] == ["whole"]
