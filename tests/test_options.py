"""Options: types, bounds, JSON and back."""

from pathlib import Path

import pytest

from bispectral_ot import options as opt
from bispectral_ot.errors import InputError

CLASSES = [each for each in vars(opt).values() if isinstance(each, type) and issubclass(each, opt.Options)]


@pytest.mark.parametrize(
    ("kind", "values", "message"),
    [
        (opt.MatchOptions, {"reg": 0}, "reg must be a number above 0, got 0"),
        (opt.MatchOptions, {"metric": "l3"}, "unknown metric 'l3'; did you mean 'l2' or 'l1'"),
        (opt.MatchOptions, {"features": "ring"}, "did you mean 'ring-bispectrum'"),
        (opt.MatchOptions, {"pca": True}, "pca must be an integer of at least 1, got True"),
        (opt.MatchOptions, {"normalize": 1}, "normalize must be True or False, got 1"),
        (opt.MatchOptions, {"solver": "exact", "reg": 0.1}, "reg has no effect on the exact solver"),
        (opt.MatchOptions, {"solver": object(), "tol": 0.1}, "tol is an option of the solver; give it to object"),
        (opt.ReadOptions, {"resize": "wide"}, "resize must be one side"),
        (opt.ReadOptions, {"split": None}, "split must be 'train' or 'val' or 'test', got None"),
        (opt.RuntimeOptions, {"working_memory": "much"}, "cannot read the memory size 'much'"),
    ],
)
def test_a_wrong_value_is_named_with_what_was_expected(kind, values, message):
    with pytest.raises(InputError) as error:
        kind(**values)
    assert message in str(error.value)


@pytest.mark.parametrize("kind", CLASSES)
def test_every_field_has_a_help_text_and_comes_back_from_json(kind):
    assert all(field.help.endswith(".") for field in kind.fields())
    assert kind(**kind().to_json()) == kind()


def test_json_has_plain_values():
    assert opt.ReadOptions(root=Path("sets"), limit=5).to_json()["root"] == "sets"
    assert "overwrite" not in opt.OutputOptions(overwrite=True).to_json()
    solver = object()  # only Python can pass it
    assert opt.MatchOptions(solver=solver).to_json()["solver"] == repr(solver)
