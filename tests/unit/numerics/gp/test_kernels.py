"""Kernels, the likelihood of one expert and its fit: against equations, differences and independent formulas."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from jaxtyping import Float64
from scipy.stats import multivariate_normal

from numerics.gp.kernel_registry import kernel_of
from numerics.gp.kernels import LENGTH_BOUNDS, Kernel
from numerics.gp.likelihood import evaluate, factor, fit_one, start_theta, theta_bounds
from numerics.gp.radial_kernels import Matern, SquaredExponential
from tests.support.parameters import few

SHARED = Path(os.environ.get("CONSILIENCE_DATA") or Path(__file__).resolve().parents[5] / "shared" / "data")
CLOSED = ["se", "matern12", "matern32", "matern52"]
WRITTEN = [
    "rq",
    "periodic",
    "linear",
    "polynomial2",
    "se + linear",
    "matern12 * periodic",
    "(matern52 + rq) * periodic",
    "se * linear + polynomial3 + matern32",
]
Array = Float64[np.ndarray, "..."]


def rows(n: int, d: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).normal(size=(n, d))


def some_params(kernel: Kernel, seed: int = 1) -> Array:
    return kernel.start() + 0.3 * np.random.default_rng(seed).normal(size=len(kernel.names))


def slopes(function: Callable[[Array], Array | float], at: Array, step: float = 1e-6) -> Array:
    """Central differences of a function, one a coordinate, along the last axis."""
    units = step * np.eye(len(at))
    return np.stack([(np.asarray(function(at + e)) - function(at - e)) / (2 * step) for e in units], axis=-1)


@pytest.mark.parametrize("d", few([3, 1]))
@pytest.mark.parametrize("text", [*CLOSED, *WRITTEN])
class TestEveryKernel:
    """What the rest of the protocol relies on, whatever the kernel."""

    def test_each_parameter_has_a_name_a_start_and_bounds(self, text: str, d: int) -> None:
        kernel = kernel_of(text, d)
        bounds = kernel.bounds()
        assert bounds.shape == (len(kernel.names), 2)
        assert np.all(bounds[:, 0] < kernel.start())
        assert np.all(kernel.start() < bounds[:, 1])
        assert len(set(kernel.names)) == len(kernel.names)

    def test_the_matrix_is_a_covariance(self, text: str, d: int) -> None:
        kernel, x = kernel_of(text, d), rows(40, d)
        params = some_params(kernel)
        gram = kernel.gram(params, x).matrix
        np.testing.assert_array_equal(gram, gram.T)
        np.testing.assert_allclose(np.diagonal(gram), kernel.diagonal(params, x), rtol=1e-12)
        assert np.linalg.eigvalsh(gram)[0] > -1e-10 * np.trace(gram)
        np.testing.assert_allclose(kernel.matrix(params, x, x), gram, atol=1e-6 * gram.max())
        np.testing.assert_allclose(kernel.matrix(params, x[:7], x[5:]), gram[:7, 5:], atol=1e-6 * gram.max())

    def test_a_batch_is_the_matrix_of_each_set(self, text: str, d: int) -> None:
        kernel, sets = kernel_of(text, d), rows(5 * 6, d).reshape(5, 6, d)
        params = some_params(kernel)
        expected = np.stack([kernel.gram(params, z).matrix for z in sets])
        np.testing.assert_allclose(kernel.batch(params, sets), expected, rtol=1e-10, atol=1e-12)

    def test_tangent_and_contraction_are_the_derivatives(self, text: str, d: int) -> None:
        kernel, x = kernel_of(text, d), rows(25, d)
        params, (v, *w) = some_params(kernel), rows(26, 25, 2)
        weights = np.array(w) + np.array(w).T
        derivatives = slopes(lambda p: kernel.gram(p, x).matrix, params)
        scale = np.abs(derivatives).max()
        np.testing.assert_allclose(
            kernel.gram(params, x).tangent(v), np.einsum("ijp,j->ip", derivatives, v), atol=1e-6 * scale
        )
        np.testing.assert_allclose(
            kernel.gram(params, x).contract(weights), np.einsum("ij,ijp->p", weights, derivatives), atol=1e-6 * scale
        )

    def test_the_likelihoods_gradient_is_its_derivative(self, text: str, d: int) -> None:
        kernel, x, y = kernel_of(text, d), rows(20, d), rows(20, 1, 3)[:, 0]
        theta = np.append(some_params(kernel), -0.5)
        at = evaluate(kernel, theta, x, y)
        expected = slopes(lambda t: evaluate(kernel, t, x, y).value, theta)
        np.testing.assert_allclose(at.gradient, expected, atol=1e-6 * max(1.0, np.abs(expected).max()))

    def test_other_units_need_other_parameters_only(self, text: str, d: int) -> None:
        kernel, x = kernel_of(text, d), rows(10, d)
        params, inputs, output = some_params(kernel), np.linspace(0.5, 3.0, d), 2.5
        moved = kernel.rescaled(params, inputs, output)
        if "polynomial" in text:
            assert moved is None
            return
        assert moved is not None
        expected = output**2 * kernel.gram(params, x).matrix
        np.testing.assert_allclose(kernel.gram(moved, x * inputs).matrix, expected, atol=1e-9 * expected.max())

    def test_lengths_are_positive_and_one_an_input(self, text: str, d: int) -> None:
        kernel = kernel_of(text, d)
        lengths = kernel.lengths(some_params(kernel))
        assert lengths.shape == (d,)
        assert np.all(lengths > 0)


# --- closed forms -------------------------------------------------------------------------------------------------


def test_the_squared_exponential_is_the_papers() -> None:
    x, z, (ell, s) = rows(6, 3), rows(4, 3, 1), (np.array([0.5, 2.0, 7.0]), 1.7)
    squares = ((x[:, None] - z) ** 2 / ell**2).sum(axis=-1)
    values = SquaredExponential(3).matrix(np.log([*ell, s]), x, z)
    np.testing.assert_allclose(values, s**2 * np.exp(-squares / 2), rtol=1e-12)


@pytest.mark.parametrize("text", CLOSED)
@pytest.mark.parametrize("d", [1, 4])
def test_closed_forms_are_gpytorchs(text: str, d: int) -> None:
    expression = pytest.importorskip("numerics.gp.kernel_expressions").expression
    ours, theirs, x = kernel_of(text, d), expression(text, d), rows(40, d)
    # Equal rows too: the distance 0 has no slope of its own.
    x[7] = x[8]
    params = some_params(ours)
    np.testing.assert_allclose(ours.gram(params, x).matrix, theirs.gram(params, x).matrix, rtol=1e-7, atol=1e-10)
    np.testing.assert_allclose(ours.lengths(params), theirs.lengths(params))
    np.testing.assert_allclose(ours.start(), theirs.start())
    np.testing.assert_allclose(ours.bounds(), theirs.bounds())
    v = rows(40, 1, 2)[:, 0]
    np.testing.assert_allclose(ours.gram(params, x).tangent(v), theirs.gram(params, x).tangent(v), atol=1e-7)


def test_whole_gpytorch_agrees_with_an_expression() -> None:
    gpytorch, torch = pytest.importorskip("gpytorch"), pytest.importorskip("torch")
    x = rows(30, 3)
    kinds = gpytorch.kernels
    base = kinds.ScaleKernel(kinds.RBFKernel(ard_num_dims=3)) + kinds.LinearKernel(ard_num_dims=3)
    base.double()
    base.kernels[0].base_kernel.lengthscale = torch.tensor([[0.5, 1.5, 3.0]], dtype=torch.float64)
    base.kernels[0].outputscale = torch.tensor(2.25, dtype=torch.float64)
    base.kernels[1].variance = torch.tensor([[0.25, 1.0, 4.0]], dtype=torch.float64)
    params = np.log([0.5, 1.5, 3.0, 1.5, 0.5, 1.0, 2.0])
    expected = base(torch.tensor(x)).to_dense().detach().numpy()
    np.testing.assert_allclose(kernel_of("se + linear", 3).matrix(params, x, x), expected, rtol=1e-10, atol=1e-10)


def test_matern_of_another_order_is_refused() -> None:
    with pytest.raises(ValueError, match=r"a Matern kernel has nu 0\.5, 1\.5 or 2\.5, not 2"):
        Matern(3, 2.0)


def test_rows_in_32_bits_are_taken() -> None:
    kernel, x = SquaredExponential(3), rows(5, 3)
    np.testing.assert_allclose(
        kernel.matrix(np.zeros(4), x.astype(np.float32), x), kernel.matrix(np.zeros(4), x, x), atol=1e-6
    )


# --- expressions --------------------------------------------------------------------------------------------------


def test_no_text_is_the_squared_exponential() -> None:
    assert isinstance(kernel_of("", 2), SquaredExponential)
    assert isinstance(kernel_of(" rbf ", 2), SquaredExponential)


@pytest.mark.parametrize("text", ["se +", "se - linear", "se(2)", "se ** 2", "2 * se", "lambda: se", "se; se", "se\0"])
def test_what_is_no_expression_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"a kernel is written with names, \+ and \* alone"):
        kernel_of(text, 2)


def test_an_unknown_name_is_answered_with_the_known_ones() -> None:
    with pytest.raises(ValueError, match="no kernel is named cosine; there are linear, matern12"):
        kernel_of("se + cosine", 2)


def test_a_long_expression_is_refused() -> None:
    with pytest.raises(ValueError, match="at most 200 characters"):
        kernel_of("se + " * 60 + "se", 2)


def test_one_scale_a_summand() -> None:
    names = kernel_of("(rq + periodic) * se + se * linear", 1).names
    assert [name for name in names if name.startswith(("log s of", "log slope"))] == [
        "log s of rq",
        "log s of periodic",
        "log slope_1 of linear",
    ]


def test_lengths_of_a_sum_are_those_of_what_varies_most() -> None:
    kernel = kernel_of("se + matern52", 1)
    short, long = np.log([0.1, 30.0, 50.0, 0.01]), np.log([0.1, 0.01, 50.0, 30.0])
    assert kernel.lengths(short)[0] == pytest.approx(0.1, rel=1e-3)
    assert kernel.lengths(long)[0] > 20
    with_line = kernel_of("linear", 2).lengths(np.log([1.0, 1e-3]))
    assert with_line[0] == pytest.approx(1.0, rel=1e-3)
    assert with_line[1] > 100


# --- likelihood ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["se", "matern32"])
def test_value_is_the_normal_density(text: str) -> None:
    kernel, x, y = kernel_of(text, 2), rows(15, 2), rows(15, 1, 4)[:, 0]
    theta = np.append(some_params(kernel), np.log(0.3))
    z = kernel.matrix(theta[:-1], x, x) + 0.09 * np.eye(15)
    at = evaluate(kernel, theta, x, y)
    assert at.value == pytest.approx(multivariate_normal(np.zeros(15), z).logpdf(y), rel=1e-10)
    L = factor(kernel, theta, x)
    np.testing.assert_allclose(L @ L.T, z, rtol=1e-12)
    np.testing.assert_array_equal(L, np.tril(L))


def test_information_is_its_definition() -> None:
    kernel, x, y = SquaredExponential(2), rows(12, 2), rows(12, 1, 4)[:, 0]
    theta = np.array([0.2, -0.1, 0.3, -1.0])

    def z(t: Array) -> Array:
        values: Array = kernel.matrix(t[:-1], x, x) + np.exp(2 * t[-1]) * np.eye(12)
        return values

    moved = slopes(z, theta).transpose(2, 0, 1) @ np.linalg.solve(z(theta), y)
    expected = 0.5 * moved @ np.linalg.solve(z(theta), moved.T)
    np.testing.assert_allclose(evaluate(kernel, theta, x, y).information, expected, rtol=1e-6, atol=1e-8)


def test_information_averages_the_observed_and_the_expected_one() -> None:
    """The mean over outputs of the model is the expected information, and so is that of minus the Hessian."""
    rng, kernel, x = np.random.default_rng(5), SquaredExponential(1), rows(20, 1)
    theta = np.array([-0.5, 0.1, -0.7])
    draws = (factor(kernel, theta, x) @ rng.normal(size=(20, 1500))).T
    found = np.mean([evaluate(kernel, theta, x, y).information for y in draws], axis=0)
    inverse = np.linalg.inv(kernel.matrix(theta[:-1], x, x) + np.exp(-1.4) * np.eye(20))
    by = slopes(lambda t: kernel.matrix(t[:-1], x, x) + np.exp(2 * t[-1]) * np.eye(20), theta).transpose(2, 0, 1)
    expected = 0.5 * np.einsum("pij,qji->pq", inverse @ by, inverse @ by)
    np.testing.assert_allclose(found, expected, rtol=0.1, atol=0.05)


@pytest.mark.parametrize("text", [*CLOSED, "se + linear"])
def test_equal_rows_with_hardly_any_noise_have_a_likelihood(text: str) -> None:
    kernel, x = kernel_of(text, 2), np.repeat(rows(10, 2), 30, axis=0)
    theta = np.append(kernel.bounds()[:, 1], np.log(1e-3))
    at = evaluate(kernel, theta, x, np.ones(300))
    assert np.isfinite(at.value)
    assert np.all(np.isfinite(at.gradient))
    assert np.linalg.eigvalsh(at.information)[0] >= -1e-6 * np.trace(at.information)


def test_a_theta_beyond_numbers_has_none() -> None:
    kernel = SquaredExponential(2)
    at = evaluate(kernel, np.array([0.0, 0.0, np.nan, 0.0]), rows(5, 2), np.ones(5))
    assert at.value == -np.inf
    assert not at.gradient.any()
    assert at.information.shape == (4, 4)
    with pytest.raises(np.linalg.LinAlgError, match="no Cholesky factor"):
        factor(kernel, np.array([0.0, 0.0, np.nan, 0.0]), rows(5, 2))


def test_one_row_has_a_likelihood_and_a_fit() -> None:
    kernel, x, y = SquaredExponential(2), rows(1, 2), np.array([0.7])
    at = evaluate(kernel, start_theta(kernel), x, y)
    assert at.value == pytest.approx(-0.5 * (0.49 / 1.1 + np.log(2 * np.pi * 1.1)))
    assert not at.gradient[:2].any()
    theta = fit_one(kernel, x, y)
    assert np.exp(2 * theta[-1]) + np.exp(2 * theta[-2]) == pytest.approx(0.49, rel=1e-2)


# --- fit of one expert --------------------------------------------------------------------------------------------


def test_a_fit_finds_a_point_without_slope_within_bounds() -> None:
    rng, kernel = np.random.default_rng(6), SquaredExponential(2)
    x = rng.uniform(-2, 2, size=(120, 2))
    y = np.sin(2 * x[:, 0]) + 0.1 * rng.normal(size=120)
    theta = fit_one(kernel, x, y, evaluations=200)
    at, box = evaluate(kernel, theta, x, y), theta_bounds(kernel)
    free = (theta > box[:, 0]) & (theta < box[:, 1])
    assert np.abs(at.gradient[free]).max() / 120 < 1e-3
    assert np.exp(theta[-1]) == pytest.approx(0.1, rel=0.25)
    # The second input says nothing.
    assert np.exp(theta[1]) > 10
    assert np.all((box[:, 0] <= theta) & (theta <= box[:, 1]))


def test_a_constant_output_leaves_no_function() -> None:
    kernel = SquaredExponential(1)
    theta = fit_one(kernel, rows(20, 1), np.zeros(20))
    assert np.all(np.isfinite(theta))
    assert np.exp(theta[-1]) == pytest.approx(1e-3)


def test_a_start_outside_its_bounds_is_moved_inside() -> None:
    kernel, x = SquaredExponential(1), rows(10, 1)
    theta = fit_one(kernel, x, np.sin(x[:, 0]), np.array([50.0, -50.0, 0.0]))
    assert theta[0] <= np.log(LENGTH_BOUNDS[1])
    assert np.isfinite(evaluate(kernel, theta, x, np.sin(x[:, 0])).value)


def test_a_fit_of_drawn_rows_is_that_of_the_generator() -> None:
    kernel, x = SquaredExponential(2), rows(60, 2)
    y = np.sin(x[:, 0])
    first, again, other = (fit_one(kernel, x, y, rows=20, rng=np.random.default_rng(seed)) for seed in (1, 1, 2))
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)
    np.testing.assert_array_equal(fit_one(kernel, x, y, rows=60), fit_one(kernel, x, y))
    with pytest.raises(ValueError, match="rows can be drawn only with a random generator"):
        fit_one(kernel, x, y, rows=20)


@pytest.mark.slow
@pytest.mark.skipif(not (SHARED / "concrete.csv.gz").is_file(), reason="the shared concrete.csv.gz is absent")
def test_concrete_reaches_what_an_independent_implementation_has() -> None:
    """specs/gp.md: the GP of all data has SMSE .0685, a mean of 5 splits."""
    table = np.loadtxt(SHARED / "concrete.csv.gz", delimiter=",", skiprows=1)
    errors = []
    for seed in range(3):
        train, test = np.split(np.random.default_rng(seed).permutation(table), [927])
        table_mean, deviation = train.mean(axis=0), train.std(axis=0)
        train, test = (train - table_mean) / deviation, (test - table_mean) / deviation
        kernel, x, y = SquaredExponential(8), train[:, :-1], train[:, -1]
        theta = fit_one(kernel, x, y, rows=400, rng=np.random.default_rng(seed), evaluations=25)
        L = factor(kernel, theta, x)
        mean = kernel.matrix(theta[:-1], test[:, :-1], x) @ np.linalg.solve(L.T, np.linalg.solve(L, y))
        errors.append(np.mean((mean - test[:, -1]) ** 2) / np.var(test[:, -1]))
    assert 0.05 < np.mean(errors) < 0.1
