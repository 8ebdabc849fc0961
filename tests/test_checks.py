"""Errors about names and numbers."""

import numpy as np
import pytest

from bispectral_ot.checks import check_choice, check_integer, check_positive
from bispectral_ot.errors import InputError

KNOWN = ("mnist", "emnist-letters", "fashion-mnist", "Disk")


@pytest.mark.parametrize(
    ("wrong", "hint"),
    [
        ("mnits", "did you mean 'mnist'"),
        ("emnist", "did you mean 'emnist-letters' or 'mnist'"),
        ("Fashion_MNIST", "did you mean 'fashion-mnist'"),
        ("xyz", "unknown set 'xyz'; choose one of mnist, emnist-letters, fashion-mnist, Disk."),
        ([], "unknown set []; choose one of"),
    ],
)
def test_the_nearest_names_are_suggested(wrong, hint):
    with pytest.raises(InputError) as caught:
        check_choice("set", wrong, dict.fromkeys(KNOWN))
    assert hint in str(caught.value)
    assert str(caught.value).endswith("choose one of mnist, emnist-letters, fashion-mnist, Disk.")


def test_numbers():
    for value in (2, np.int32(2), np.uint8(2)):
        assert check_integer("n", value, minimum=2, maximum=2) == 2
        check_positive("reg", value, "say more")
    for wrong in (1, 2.0, True, np.True_, "2", None, np.nan):
        with pytest.raises(InputError, match="n must be an integer of at least 2, got"):
            check_integer("n", wrong, minimum=2)
    for wrong in (0, -1.0, np.nan, np.inf, "1", None):
        with pytest.raises(InputError, match=r"reg must be a positive number, got .*; say more"):
            check_positive("reg", wrong, "say more")
