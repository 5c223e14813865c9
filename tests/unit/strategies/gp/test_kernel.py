"""The kernel is that which the sites' rows favor, and one site cannot choose it for the others."""

from __future__ import annotations

import numpy as np

from protocols.gp.payloads import Moments
from strategies.gp.hyperparameters import favored

KERNELS = ("se", "matern52", "matern32")


def says(rows: int, *likelihoods: float) -> Moments:
    """An answer of a site of so many rows, with so many nats a row for each kernel."""
    one = np.ones(1)
    return Moments(
        ("x",), np.array([rows]), one[:, np.newaxis], np.ones((1, 1, 1)), one, one,
        np.zeros(3), np.zeros(6), np.array(likelihoods), (),
    )  # fmt: skip


def test_the_site_in_the_middle_of_all_rows_decides() -> None:
    smooth, rough = (-1.0, -1.1, -1.2), (-1.2, -1.1, -1.0)
    assert favored(KERNELS, {"a": says(10, *smooth), "b": says(30, *rough)}) == "matern32"
    assert favored(KERNELS, {"a": says(30, *smooth), "b": says(10, *rough)}) == "se"
    assert favored(KERNELS, {"a": says(10, -1.2, -1.0, -1.1)}) == "matern52"


def test_a_site_that_lies_does_not_choose_the_kernel() -> None:
    honest = {site: says(20, -1.0, -1.01, -1.02) for site in "abcd"}
    assert favored(KERNELS, {**honest, "liar": says(60, -1e9, 0.0, 1e9)}) == "se"


def test_sites_without_a_fit_do_not_count() -> None:
    answers = {"a": says(1000), "b": says(10, -1.2, -1.1, -1.0)}
    assert favored(KERNELS, answers) == "matern32"
    assert favored(KERNELS, {"a": says(1000)}) == "se"
    assert favored(("se",), {"a": says(10, -1.0)}) == "se"
