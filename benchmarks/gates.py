"""Gates of gp compared with others: ``python -m benchmarks.gates``.

The other gates are networks with different output activations, batch sizes (Jalali and Kasneci 2022, Figure 8) and
hidden layers, and distances from the experts' centroids. Networks are scikit-learn's, trained on all rows in one place,
which is equivalent to summing the sites' gradients. The data are those of the scenarios, in the directory
`CONSILIENCE_DATA`.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from jaxtyping import Float64
from scipy.spatial.distance import cdist
from sklearn.exceptions import ConvergenceWarning
from sklearn.neural_network import MLPClassifier

from benchmarks.expert_worlds import SPLIT, World, predictions_of, theta_of, world_of
from benchmarks.tables import table_head, table_row
from numerics.gp.aggregation import aggregate
from numerics.gp.gates import discriminant
from numerics.gp.gates.ranking import ranking
from numerics.gp.metrics import msll, smse
from numerics.gp.radial_kernels import SquaredExponential

DRAWS, BATCHES, LAYERS = 2, (16, 50, 100), ((10,), (50, 50))
_OUTPUTS = ("softmax", "sigmoid")
_EPOCHS = 100
_Scores = Float64[np.ndarray, "N M"]


def networks(world: World, seed: int) -> Iterator[tuple[str, _Scores]]:
    """Yield the names and scores of networks that learn to which expert a row belongs."""
    x, label = np.concatenate([x for x, _ in world.experts]), np.repeat(
        np.arange(len(world.experts)), [len(y) for _, y in world.experts]
    )  # fmt: skip
    cases: list[tuple[str, str, int, tuple[int, ...]]]
    cases = [(f"{output}, {batch} rows a step", output, batch, (50,)) for batch in BATCHES for output in _OUTPUTS]
    cases += [(f"softmax, all rows a step, {layers} units", "softmax", len(x), layers) for layers in ((50,), *LAYERS)]
    for words, output, batch, layers in cases:
        whole = batch == len(x)
        network = MLPClassifier(
            layers, batch_size=batch, max_iter=_EPOCHS, learning_rate_init=0.05 if whole else 0.005, random_state=seed
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            # With a column for each class, scikit-learn's outputs are sigmoids and the loss is binary cross-entropy.
            network.fit(x, label if output == "softmax" else np.eye(len(world.experts))[label])
        yield words, network.predict_proba(world.test[0])


def distances(world: World, lengths: Float64[np.ndarray, "d"]) -> Iterator[tuple[str, _Scores]]:
    """Yield the names and scores of distances from the centroids, and of the default gate."""
    points, centers = world.test[0], world.moments.means
    for name in ("euclidean", "cityblock", "chebyshev"):
        yield name, -cdist(points, centers, name)
    yield "euclidean, in the kernel's lengths", -cdist(points / lengths, centers / lengths)
    ridge = 1e-3 * np.eye(points.shape[1])
    inverses = [np.linalg.inv(each + ridge) for each in world.moments.covariances]
    far = [cdist(points, centers[[i]], "mahalanobis", VI=each)[:, 0] for i, each in enumerate(inverses)]
    yield "Mahalanobis", -np.stack(far, axis=1)
    yield "gaussian gate", discriminant.scores(points, world.moments, lengths)


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, and print a table."""
    parser: Any = argparse.ArgumentParser(prog="python -m benchmarks.gates", description=__doc__.partition("\n")[0])
    parser.add_argument("--only", nargs="+", choices=SPLIT, default=["concrete"])
    parser.add_argument("--draws", type=int, default=DRAWS)
    parser.add_argument("--experts", type=int, nargs="+", default=[4, 6])
    options = parser.parse_args(arguments)
    print("\n".join(table_head(["data", "gate", *(f"K = {K}" for K in options.experts)])), flush=True)
    for name in options.only:
        found: dict[str, list[list[tuple[float, float]]]] = {}
        for seed in range(options.draws):
            world = world_of(name, seed)
            kernel = SquaredExponential(world.test[0].shape[1])
            theta = theta_of(kernel, world.experts, seed)
            prior, noise = kernel.diagonal(theta[:-1], world.test[0]), float(np.exp(2 * theta[-1]))
            for gate, scores in (*distances(world, kernel.lengths(theta[:-1])), *networks(world, seed)):
                row = []
                for K in options.experts:
                    order = ranking(scores)[:, :K]
                    fused = aggregate("npae", predictions_of(world, kernel, theta, order), prior, noise)
                    y = world.test[1]
                    row.append((smse(y, fused.mean), msll(y, fused.mean, fused.variance, 0.0, 1.0)))
                found.setdefault(gate, []).append(row)
        for gate, rows in found.items():
            mean = np.mean(rows, axis=0)
            print(table_row([name, gate, *(f"{error:.4f} / {loss:.3f}" for error, loss in mean)]), flush=True)


if __name__ == "__main__":
    main()
