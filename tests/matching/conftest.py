import pytest

import bispectral_ot as bot


@pytest.fixture(scope="session")
def turned_halves():
    """Two halves of the digits, 60 of each class, the first one turned at random."""
    source, target = bot.split_halves(bot.load("digits"), per_class=60)
    return bot.rotate_randomly(source), target


@pytest.fixture(scope="session")
def turned_match(turned_halves):
    return bot.match(*turned_halves)
