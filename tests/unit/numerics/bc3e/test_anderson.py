"""Anderson acceleration: exact on linear maps, the same wherever its blocks lie, safe where it extrapolates."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from numerics.bc3e.anderson import (
    DEPTH,
    PLAIN,
    PRODUCT_BITS,
    Array,
    ParameterBlock,
    Weights,
    project_log_alpha,
    project_rows,
)
from numerics.bc3e.m_step import ALPHA_MAX, ALPHA_MIN
from tests.support.examples import examples

SEEDS = st.integers(0, 2**32 - 1)
Map = Callable[[Array], Array]


def anywhere(mixed: Array, plain: Array) -> Array:
    """For parameters without a domain to stay in."""
    return mixed


def iterate(
    blocks: list[ParameterBlock], maps: list[Map], steps: int, weights: Weights | None = None
) -> list[np.ndarray]:
    """Accelerated steps of a map that acts on every block by itself; the weights used."""
    weights = weights or Weights()
    used = []
    for _ in range(steps):
        images = [g(block.x) for block, g in zip(blocks, maps, strict=True)]
        products = sum(block.products(image) for block, image in zip(blocks, images, strict=True))
        weights.accept(np.asarray(products))
        for block, image in zip(blocks, images, strict=True):
            block.accept(image)
        used.append(weights.solve())
        for block in blocks:
            block.move(used[-1])
    return used


def linear_map(seed: int, size: int, fastest: float = 0.95) -> tuple[Map, np.ndarray]:
    """A contraction x -> A x + b with A symmetric, and its fixed point."""
    rng = np.random.default_rng(seed)
    basis = np.linalg.qr(rng.normal(size=(size, size)))[0]
    # Rates well apart: close ones make the residuals nearly dependent, which the ridge then decides.
    rates = np.linspace(0.2, fastest, size) if size > 1 else np.array([fastest])
    matrix = basis @ np.diag(rates) @ basis.T
    fixed = rng.normal(size=size)
    return lambda x: fixed + matrix @ (x - fixed), fixed


# -- linear maps ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", range(1, DEPTH + 1))
@pytest.mark.parametrize("seed", range(10))
def test_a_linear_contraction_is_solved_in_as_many_steps_as_it_has_dimensions(size: int, seed: int) -> None:
    """`size` + 1 evaluations give the weights of the fixed point, one more removes what the ridge left."""
    g, fixed = linear_map(seed, size)
    block = ParameterBlock(np.zeros(size), anywhere)
    iterate([block], [g], size + 2)
    error = np.linalg.norm(block.x - fixed)
    plain = np.zeros(size)
    for _ in range(size + 2):
        plain = g(plain)
    assert error < 1e-5 * np.linalg.norm(fixed)
    assert error < 1e-3 * np.linalg.norm(plain - fixed)


@pytest.mark.parametrize("seed", range(5))
def test_more_dimensions_than_depth_are_still_accelerated(seed: int) -> None:
    g, fixed = linear_map(seed, 3 * DEPTH, 0.98)
    block = ParameterBlock(np.zeros(3 * DEPTH), anywhere)
    iterate([block], [g], 20)
    plain = np.zeros(3 * DEPTH)
    for _ in range(20):
        plain = g(plain)
    assert np.linalg.norm(block.x - fixed) < 0.1 * np.linalg.norm(plain - fixed)


# -- blocks at their holders ------------------------------------------------------------------------------------------


@examples(40)
@given(SEEDS, st.lists(st.integers(1, 4), min_size=2, max_size=4))
def test_blocks_held_apart_move_as_those_held_together(seed: int, sizes: list[int]) -> None:
    """Bit for bit: inner products are on a grid, so their sums do not depend on who adds them."""
    maps = [linear_map(seed + place, size)[0] for place, size in enumerate(sizes)]
    apart = [ParameterBlock(np.zeros(size), anywhere) for size in sizes]
    together = ParameterBlock(np.zeros(sum(sizes)), anywhere)
    cuts = np.cumsum(sizes)[:-1]

    def joint(x: Array) -> Array:
        return np.concatenate([g(part) for g, part in zip(maps, np.split(x, cuts), strict=True)])

    used = iterate(apart, maps, 8)
    same = iterate([together], [joint], 8)
    for one, other in zip(used, same, strict=True):
        np.testing.assert_array_equal(one, other)
    np.testing.assert_array_equal(np.concatenate([block.x for block in apart]), together.x)


def test_products_are_inner_products_of_residuals_on_the_grid() -> None:
    """With the kept residuals, oldest first, and at last with itself."""
    rng = np.random.default_rng(0)
    block = ParameterBlock(rng.normal(size=(2, 3)))
    residuals: list[np.ndarray] = []
    for number in range(DEPTH + 3):
        image = block.x + 1e-3 * rng.normal(size=(2, 3))
        residuals = [*residuals, image - block.x][-(DEPTH + 1) :]
        expected = [(residuals[-1] * other).sum() for other in residuals]
        products = block.products(image)
        assert products.dtype == np.int64
        assert len(products) == min(number, DEPTH) + 1
        np.testing.assert_allclose(products * 2.0**-PRODUCT_BITS, expected, rtol=0, atol=6 * 2.0**-PRODUCT_BITS)
        block.accept(image)
        block.x = image
    assert len(block.points) == len(block.images) == DEPTH + 1


def test_one_weight_is_the_plain_step() -> None:
    block = ParameterBlock(np.array([[0.5, 0.5]]))
    image = np.array([[1.0, 0.0]])
    block.accept(image)
    block.move(PLAIN)
    np.testing.assert_array_equal(block.x, image)


def test_forgetting_keeps_the_newest_image_and_the_plain_step() -> None:
    """After a step that failed, everyone goes back and on by a plain step, and starts to combine again from there."""
    g, _ = linear_map(3, 4)
    block, weights = ParameterBlock(np.zeros(4), anywhere), Weights()
    iterate([block], [g], 3, weights)
    newest = block.images[-1]
    block.forget()
    weights.reject()
    assert len(block.points) == len(block.images) == len(weights.gram) == 1
    block.move(PLAIN)
    np.testing.assert_array_equal(block.x, newest)
    used = iterate([block], [g], 2, weights)
    assert [len(each) for each in used] == [2, 3]


def test_a_center_that_forgot_more_than_the_blocks_uses_the_newest_products() -> None:
    """The weights then combine fewer images than the blocks keep."""
    g, fixed = linear_map(4, 2)
    block, weights = ParameterBlock(np.zeros(2), anywhere), Weights()
    iterate([block], [g], 3, weights)
    weights.forget()
    used = iterate([block], [g], 3, weights)
    assert [len(each) for each in used] == [2, 3, 4]
    assert np.linalg.norm(block.x - fixed) < 1e-3


# -- weights ----------------------------------------------------------------------------------------------------------


@examples(80)
@given(SEEDS, st.integers(1, DEPTH + 1), st.floats(-6, 3))
def test_weights_sum_to_one(seed: int, size: int, magnitude: float) -> None:
    """Also those of a forward step, and for residuals that depend on each other."""
    rng = np.random.default_rng(seed)
    residuals = 10**magnitude * rng.normal(size=(size, rng.integers(1, 6)))
    weights = Weights(gram=residuals @ residuals.T)
    solved = weights.solve()
    assert solved.sum() == pytest.approx(1.0, abs=1e-6 * max(1.0, np.abs(solved).max()))
    assert len(solved) <= size
    if weights.forward:
        assert solved.tolist() == [-weights.reach, 1 + weights.reach]


@pytest.mark.parametrize("size", [0, 1, 2, 4])
def test_no_residual_gives_a_plain_step(size: int) -> None:
    np.testing.assert_array_equal(Weights(gram=np.zeros((size, size))).solve(), PLAIN)


def test_weights_minimize_the_combined_residual() -> None:
    rng = np.random.default_rng(1)
    # Residuals that shrink: the newest has a positive weight.
    residuals = rng.normal(size=(3, 8)) * np.array([[1.0], [0.3], [0.1]])
    weights = Weights(gram=residuals @ residuals.T)
    solved = weights.solve()
    assert not weights.forward
    least = np.linalg.norm(solved @ residuals)
    for _ in range(50):
        other = solved + 0.1 * rng.normal(size=3)
        assert np.linalg.norm(other / other.sum() @ residuals) >= least - 1e-9


# -- saddles ----------------------------------------------------------------------------------------------------------


def test_a_growing_map_is_left_by_forward_steps() -> None:
    """Near a saddle EM grows slowly away from it. Cancelling the residuals would lead back; steps go forward.

    As in a fit, a step after which the bound (here the distance from the saddle) fell is taken back.
    """
    start, growth, evaluations = 1e-4, 1.05, 8
    weights, block, mix, best = Weights(), ParameterBlock(np.array([start]), anywhere), PLAIN, 0.0
    failed = 0
    for _ in range(evaluations):
        if len(mix) > 1 and abs(block.x[0]) < best:
            failed += 1
            weights.reject()
            block.forget()
            mix = PLAIN
        else:
            best = abs(block.x[0])
            image = growth * block.x
            weights.accept(block.products(image))
            block.accept(image)
            mix = weights.solve()
        block.move(mix)
    assert best > 100 * start * growth**evaluations
    assert failed <= evaluations // 3


def test_forward_steps_grow_when_they_hold_and_shrink_when_they_fail() -> None:
    weights = Weights(gram=np.array([[1.0, 1.05], [1.05, 1.05**2]]))
    weights.solve()
    assert weights.forward
    reach = weights.reach
    weights.accept(np.array([1, 2, 3], np.int64))
    assert weights.reach == 2 * reach
    assert not weights.forward

    for _ in range(30):
        weights.forward = True
        weights.accept(np.array([1], np.int64))
    assert weights.reach == 100.0
    for _ in range(30):
        before = weights.reach
        weights.forward = True
        weights.reject()
        assert weights.reach < before or weights.reach == 0.5
        assert not weights.forward
    assert weights.reach == 0.5


def test_a_failed_combination_leaves_the_reach() -> None:
    weights = Weights(gram=np.eye(3))
    reach = weights.reach
    weights.solve()
    assert not weights.forward
    weights.reject()
    assert weights.reach == reach


# -- domains ----------------------------------------------------------------------------------------------------------


@examples(100)
@given(SEEDS, st.integers(1, 5), st.integers(1, 6), st.floats(0, 100))
def test_combined_rows_stay_probabilities(seed: int, k: int, k_m: int, reach: float) -> None:
    """However far the extrapolation went, no entry falls below a tenth of the plain one, up to the normalization."""
    rng = np.random.default_rng(seed)
    older, plain = rng.dirichlet(np.ones(k_m), size=(2, k))
    rows = project_rows((1 + reach) * plain - reach * older, plain)
    np.testing.assert_allclose(rows.sum(axis=1), 1.0, rtol=1e-12)
    assert (rows[plain > 0] > 0).all()
    assert (rows >= 0.1 * plain / (2 + 2 * reach)).all()


def test_a_combination_that_is_a_probability_table_stays() -> None:
    plain = np.array([[0.2, 0.8], [0.5, 0.5]])
    mixed = np.array([[0.1, 0.9], [0.6, 0.4]])
    np.testing.assert_allclose(project_rows(mixed, plain), mixed, rtol=1e-15)


def test_a_probability_of_zero_may_stay_zero() -> None:
    """A cluster that a class never has: EM itself keeps it at 0."""
    plain = np.array([[0.0, 1.0]])
    np.testing.assert_array_equal(project_rows(np.array([[0.0, 1.0]]), plain), plain)


@examples(100)
@given(
    st.lists(st.floats(-1e3, 1e3), min_size=2, max_size=5).map(np.array),
    st.floats(np.log(ALPHA_MIN), np.log(ALPHA_MAX)),
)
def test_alpha_stays_in_its_box_and_near_the_plain_step(mixed: np.ndarray, plain: float) -> None:
    projected = project_log_alpha(mixed, np.full(len(mixed), plain))
    assert (projected >= np.log(ALPHA_MIN)).all()
    assert (projected <= np.log(ALPHA_MAX)).all()
    assert (np.abs(projected - plain) <= np.log(10) + 1e-12).all()
    inside = (np.abs(mixed - plain) < np.log(10)) & (mixed > np.log(ALPHA_MIN)) & (mixed < np.log(ALPHA_MAX))
    np.testing.assert_array_equal(projected[inside], mixed[inside])
