"""Checks of answers at the fusion center, beyond types and shapes that the payloads declare."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from jaxtyping import Float16, Float32, Float64

from numerics.gp.dirichlet import largest_squares
from numerics.gp.joint_answers import sizes
from numerics.gp.kernel_names import kernels_of
from numerics.gp.kernel_registry import kernel_of
from numerics.gp.own_noise import FACTORS
from protocols.classes import check_classes
from protocols.gp.payloads import (
    CONSENTS,
    LARGEST,
    MOST_EXPERTS,
    MOST_ROWS,
    OWN_FIT_ROWS,
    Inputs,
    Moments,
    Predict,
    Predictions,
    Rows,
    Survey,
)
from protocols.wire.payload import PayloadError
from strategies.column_names import check_names
from strategies.conversation import Check
from strategies.gp.expert_registry import ExpertRegistry
from strategies.gp.hyperparameters import ROUNDING, is_information, symmetric

_HALF = 1e-3
"""More than the rounding error of a number up to 1 in half precision."""
_SLACK = 0.01
"""Share by which a mean may exceed its bound: with almost no noise, a factorization has few correct digits."""


_MOST_KNOWN = 1e9
"""Largest information of a row: of 60 rows, with ten kernels and functions with steps, lines and one outlier, 8e6."""


def check_moments(ask: Survey) -> Check:
    """Return a check that refuses impossible moments, hyperparameters of another kernel, and other nearest rows."""

    def check(site: str, answer: Moments) -> None:
        _check_moments(answer)
        if answer.nearest and (answer.nearest != ask.local or len(answer.counts) > 1):
            raise PayloadError(answer.title(), "nearest", f"expected one expert of {ask.local} nearest rows, or none")
        kernels = kernels_of(ask.kernel)
        _check_choice(answer, len(kernels), len(kernel_of(kernels[0], len(answer.features)).names) + 1)
        if answer.outliers.any() and (ask.robust or answer.classes or not len(answer.theta)):
            raise PayloadError(answer.title(), "outliers", "expected zeros: nothing is predicted without outliers")

    return check


def _check_moments(answer: Moments) -> None:
    def refuse(field: str, problem: str) -> None:
        raise PayloadError(answer.title(), field, problem)

    names = answer.features
    check_names(answer, "features", names)
    check_classes(answer, answer.classes)
    if answer.means.shape[1] != len(names):
        refuse("means", f"expected {len(names)} inputs, got {answer.means.shape[1]}")
    if not 1 <= len(answer.counts) <= MOST_EXPERTS:
        refuse("counts", f"expected 1 to {MOST_EXPERTS} experts")
    if not 1 <= answer.counts.min() <= answer.counts.max() <= MOST_ROWS:
        refuse("counts", f"expected experts of 1 to {MOST_ROWS} rows")
    for field in ("means", "y_means"):
        if np.abs(getattr(answer, field)).max() > LARGEST:
            refuse(field, f"expected numbers up to {LARGEST:g}")
    if not 0 <= answer.y_variances.min() <= answer.y_variances.max() <= LARGEST**2:
        refuse("y_variances", "expected variances")
    if not 0 <= answer.left_out <= MOST_ROWS:
        refuse("left_out", f"expected 0 to {MOST_ROWS} rows")
    if not _are_covariances(answer.covariances):
        refuse("covariances", "expected covariance matrices")
    _check_class_counts(answer)
    total, squares = answer.outliers
    # Cauchy and Schwarz, up to three digits.
    n_rows = min(int(answer.counts.sum()), OWN_FIT_ROWS)
    if not 0 <= squares <= LARGEST**2 or total**2 > (1 + _SLACK) * n_rows * squares:
        refuse("outliers", "expected a sum over the site's rows, and one of their squares")
    if not set(answer.consents) <= set(CONSENTS):
        refuse("consents", f"expected some of {', '.join(CONSENTS)}")


def _check_class_counts(answer: Moments) -> None:
    """Check that every row has a class, where outputs are classes, and that they have no other moments."""
    expected = (len(answer.counts), len(answer.classes))
    if answer.class_counts.shape != expected:
        raise PayloadError(answer.title(), "class_counts", f"expected {expected} numbers")
    if not answer.classes:
        return
    if answer.class_counts.min() < 0 or (answer.class_counts.sum(axis=1) != answer.counts).any():
        raise PayloadError(answer.title(), "class_counts", "expected numbers of rows that add up to all")
    for field in ("y_means", "y_variances"):
        if getattr(answer, field).any():
            raise PayloadError(answer.title(), field, "expected zeros, since outputs are classes")


def _check_choice(answer: Moments, n_kernels: int, expected: int) -> None:
    """Check the site's own hyperparameters, `expected` or none in number, with their information and likelihoods."""

    def refuse(field: str, problem: str) -> None:
        raise PayloadError(answer.title(), field, problem)

    size = len(answer.theta)
    if size not in (0, expected):
        refuse("theta", f"expected {expected} hyperparameters, got {size}")
    if np.abs(answer.theta).max(initial=0.0) > np.log(LARGEST):
        refuse("theta", "is out of bounds")
    if len(answer.information) != size * (size + 1) // 2 or not is_information(symmetric(answer.information, size)):
        refuse("information", f"expected a positive semidefinite matrix of {size} parameters")
    outputs = float(answer.counts.sum()) * max(1, len(answer.classes))
    if np.abs(answer.information).max(initial=0.0) > _MOST_KNOWN * outputs:
        refuse("information", "is larger than so many rows can give")
    n_kernels *= size > 0
    if len(answer.likelihoods) != n_kernels or np.abs(answer.likelihoods).max(initial=0.0) > LARGEST:
        refuse("likelihoods", f"expected {n_kernels} numbers up to {LARGEST:g}")


def _are_covariances(matrices: Float64[np.ndarray, "m d d"]) -> bool:
    """Return whether matrices are symmetric and positive semidefinite up to rounding."""
    variances = np.einsum("mdd->md", matrices)
    if not 0 <= variances.min() <= variances.max() <= LARGEST**2:
        return False
    deviations = np.sqrt(variances)
    unit = np.where(deviations > 0, deviations, 1.0)
    correlations = matrices / (unit[:, :, np.newaxis] * unit[:, np.newaxis, :])
    return bool(
        np.array_equal(matrices, matrices.swapaxes(1, 2))
        and np.abs(correlations).max() <= 1 + ROUNDING
        and np.linalg.eigvalsh(correlations).min() >= -ROUNDING
    )


def check_rows(most: Mapping[str, int], d: int) -> Check:
    """Return a check that refuses more than `most` rows of a site, and rows that do not have d inputs."""

    def check(site: str, answer: Rows) -> None:
        if len(answer.y) > most[site]:
            raise PayloadError(answer.title(), "y", f"expected {most[site]} rows at most, got {len(answer.y)}")
        if answer.x.shape[1] != d:
            raise PayloadError(answer.title(), "x", f"expected {d} inputs, got {answer.x.shape[1]}")
        _check_size(answer, "x", (answer.x,))
        _check_size(answer, "y", (answer.y,))

    return check


def check_inputs(registry: ExpertRegistry) -> Check:
    """Return a check that refuses inputs whose shape is not that of the experts' rows."""

    def check(site: str, answer: Inputs) -> None:
        shapes = [x.shape for x in answer.x]
        expected = [(int(n), len(registry.features)) for n in registry.counts[site]]
        if shapes != expected:
            raise PayloadError(answer.title(), "x", f"expected inputs of shapes {expected}, got {shapes}")
        _check_size(answer, "x", answer.x)

    return check


def _check_size(answer: Rows | Inputs, field: str, arrays: Sequence[Float64[np.ndarray, "..."]]) -> None:
    if any(np.abs(each).max(initial=0.0) > LARGEST for each in arrays):
        raise PayloadError(answer.title(), field, f"expected numbers up to {LARGEST:g}")


def check_predictions(
    asks: Mapping[str, Predict], registry: ExpertRegistry, kernel: str, theta: Float64[np.ndarray, "p"]
) -> Check:
    """Return a check that refuses predictions that no rows with the expert's moments can make.

    Let y be an expert's outputs, C the covariance matrix of its rows (noise included), c the covariance of a point with
    the rows, and k** the prior variance at the point. The expert explains ``c' C^-1 c`` of k**, and predicts
    ``c' C^-1 y`` (Jalali and Kasneci 2022, eqs. 2 and 3). So the explained variance is at most k**. By Cauchy and
    Schwarz, the mean is at most ``sqrt(explained y' C^-1 y)``, where ``y' C^-1 y <= |y|^2 / noise``; the moments give
    ``|y|^2``. Where outputs are classes, the noise N of each row is known, and ``y' C^-1 y <= y' N^-1 y``.

    Parameters
    ----------
    asks : Mapping[str, Predict]
        The asks, by site.
    registry : ExpertRegistry
        The experts.
    kernel, theta
        Kernel and hyperparameters of the asks.
    """
    # The smallest noise that a site may predict with.
    moments, noise = registry.moments, float(np.exp(2 * theta[-1])) * (FACTORS[0] ** 2 if registry.own_noise else 1.0)
    prior_variance = kernel_of(kernel, len(registry.features)).diagonal
    squares = (moments.counts * (moments.y_variance + moments.y_mean**2))[:, np.newaxis]
    if registry.latent is not None:
        squares, noise = largest_squares(moments.counts, registry.latent), 1.0
    outputs = registry.n_outputs

    def check(site: str, answer: Predictions) -> None:
        ask = asks[site]
        _check_shapes(answer, [len(points) * outputs for points in ask.points], ask)
        shared = float(ask.shared_y @ ask.shared_y)
        for expert, points, mean, explained in zip(
            registry.places[site].tolist(), ask.points, answer.mean, answer.explained, strict=True
        ):
            prior, own = np.repeat(prior_variance(theta[:-1], points), outputs), np.tile(squares[expert], len(points))
            if ((explained < 0) | (explained > prior * (1 + ROUNDING))).any():
                raise PayloadError(answer.title(), "explained", "expected variances of at most the prior's")
            most = np.sqrt(explained * (own + shared) / noise)
            if (np.abs(mean) > (1 + _SLACK) * most + ROUNDING).any():
                problem = "is larger than rows with the moments that the site sent allow"
                raise PayloadError(answer.title(), "mean", problem)
        for place, (means, packed) in enumerate(zip(answer.further_mean, answer.further_unknown, strict=True)):
            own = np.tile(squares[registry.places[site][place]], len(means) // outputs)
            _check_further(answer, means, packed, (own + shared) / noise)

    return check


def _check_further(
    answer: Predictions,
    means: Float32[np.ndarray, "q A"],
    packed: Float16[np.ndarray, "q T"],
    squares: Float64[np.ndarray, "q"],
) -> None:
    """Check predictions at landmarks: each has a prior variance of 1, and a mean bounded as in `check_predictions`."""
    rows, columns = np.triu_indices(means.shape[1])
    unknown = packed.astype(np.float64)
    left = unknown[:, rows == columns]
    if (np.abs(unknown) > 1).any() or (left < 0).any():
        raise PayloadError(answer.title(), "further_unknown", "expected covariances of variances of at most 1")
    # In half precision a small explained variance may have become 0.
    if (np.abs(means) > (1 + _SLACK) * np.sqrt((1 + _HALF - left) * squares[:, np.newaxis]) + ROUNDING).any():
        problem = "is larger than rows with the moments that the site sent allow"
        raise PayloadError(answer.title(), "further_mean", problem)


def _check_shapes(answer: Predictions, expected: list[int], ask: Predict) -> None:
    means, covariances = sizes(ask.landmarks) if ask.joint else (0, 0)
    widths = {"features": ask.landmarks, "further_mean": means, "further_unknown": covariances}
    for name in ("mean", "explained", *widths):
        arrays = getattr(answer, name)
        lengths = [len(each) for each in arrays]
        if lengths != (expected if ask.joint or not name.startswith("further") else []):
            raise PayloadError(answer.title(), name, f"expected {expected} numbers, got {lengths}")
        if name in widths and any(each.shape[1] != widths[name] for each in arrays):
            raise PayloadError(answer.title(), name, f"expected {widths[name]} {name} of a point")
