"""Anderson steps on fixed points that are known."""

from __future__ import annotations

import numpy as np

from bispectral_ot.transport.anderson import Anderson


def iterate(accelerate: bool, steps: int) -> float:
    """Distance from the fixed point of a slow linear map after some steps."""
    generator = np.random.default_rng(0)
    basis, _ = np.linalg.qr(generator.normal(size=(30, 30)))
    slow = basis @ np.diag(np.linspace(0.0, 0.99, 30)) @ basis.T
    shift = generator.normal(size=30)
    x, anderson = np.zeros(30), Anderson(8)
    for _ in range(steps):
        image = slow @ x + shift
        x = anderson.next(x, image) if accelerate else image
    return float(np.abs(x - np.linalg.solve(np.eye(30) - slow, shift)).max())


def test_it_gets_there_sooner_than_plain_steps():
    assert iterate(True, 60) < 1e-3 * iterate(False, 60)


def test_the_fixed_point_stays():
    anderson, x = Anderson(), np.arange(5.0)
    for _ in range(4):
        np.testing.assert_allclose(anderson.next(x, x.copy()), x)


def test_equal_residuals_do_not_send_it_away():
    """A constant drift has no fixed point: extrapolating to it would go to infinity."""
    anderson, x = Anderson(), np.zeros(3)
    for _ in range(6):
        new = anderson.next(x, x + 1.0)
        assert np.abs(new - x).max() <= 20
        x = new


def test_numbers_that_are_none_are_not_extrapolated():
    anderson = Anderson()
    anderson.next(np.zeros(2), np.ones(2))
    image = np.array([np.inf, 1.0])
    with np.errstate(invalid="ignore"):
        np.testing.assert_array_equal(anderson.next(np.ones(2), image), image)


def test_after_each_reset_it_takes_more_plain_steps():
    def plain_steps(anderson):
        """Steps of x <- x / 2 + 1 until it extrapolates."""
        x = np.array([0.0, 5.0])
        for count in range(100):
            image = x / 2 + 1
            x, before = anderson.next(x, image), image
            if not np.array_equal(x, before):
                return count
        raise AssertionError

    anderson = Anderson()
    counts = []
    for _ in range(4):
        counts.append(plain_steps(anderson))
        anderson.reset()
    assert counts == [1, 2, 4, 8]
