"""Gaussian processes of pooled rows, by GPyTorch, by scikit-learn and by the project's own code.

Every peer learns from standardized rows and predicts mean and variance of an observation in double precision. The
kernel is the experts' default, a squared exponential with a length for every input.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from jaxtyping import Float64

Rows = Float64[np.ndarray, "n d"]
Numbers = Float64[np.ndarray, "n"]
Predictor = Callable[[Rows], tuple[Numbers, Numbers]]
Peer = Callable[[Rows, Numbers, int], Predictor]
"""``peer(x, y, seed)`` learns and returns a predictor."""

STEPS, STEP = 100, 0.1
"""Number and size of Adam's steps for the exact process."""
INDUCING, EPOCHS, BATCH, SVGP_STEP = 256, 200, 256, 0.01
START_NOISE = 0.1
_AT_ONCE = 1000
"""Number of query points in one call."""


# -- GPyTorch ---------------------------------------------------------------------------------------------------------


def exact(x: Rows, y: Numbers, seed: int, *, cholesky: bool = False) -> Predictor:
    """Fit `ExactGP` with its defaults, which beyond 800 rows are conjugate gradients, or always by Cholesky factors."""
    import gpytorch
    import torch

    torch.set_num_threads(1)
    torch.manual_seed(seed)

    class Process(gpytorch.models.ExactGP):  # type: ignore[misc]
        def __init__(self, inputs: torch.Tensor, outputs: torch.Tensor, likelihood: object) -> None:
            super().__init__(inputs, outputs, likelihood)
            self.mean = gpytorch.means.ZeroMean()
            self.covariance = gpytorch.kernels.ScaleKernel(gpytorch.kernels.RBFKernel(ard_num_dims=inputs.shape[1]))

        def forward(self, inputs: torch.Tensor) -> object:
            return gpytorch.distributions.MultivariateNormal(self.mean(inputs), self.covariance(inputs))

    inputs, outputs = torch.from_numpy(x), torch.from_numpy(y)
    likelihood = gpytorch.likelihoods.GaussianLikelihood().double()
    likelihood.noise = START_NOISE
    model = Process(inputs, outputs, likelihood).double()
    objective = gpytorch.mlls.ExactMarginalLogLikelihood(likelihood, model)
    limit = gpytorch.settings.max_cholesky_size(len(y) if cholesky else gpytorch.settings.max_cholesky_size.value())
    adam = torch.optim.Adam(model.parameters(), lr=STEP)
    model.train()
    with limit:
        for _ in range(STEPS):
            adam.zero_grad()
            loss = -objective(model(inputs), outputs)
            loss.backward()
            adam.step()
    model.eval(), likelihood.eval()

    def predict(points: Rows) -> tuple[Numbers, Numbers]:
        with limit, torch.no_grad():
            prediction = likelihood(model(torch.from_numpy(points)))
            return prediction.mean.numpy(), prediction.variance.numpy()

    return predict


def svgp(x: Rows, y: Numbers, seed: int, epochs: int = 0) -> Predictor:
    """Fit `SVGP`, the variational process of inducing points, by batches of rows; 0 epochs: `EPOCHS`."""
    import gpytorch
    import torch

    torch.set_num_threads(1)
    torch.manual_seed(seed)
    inputs, outputs = torch.from_numpy(x), torch.from_numpy(y)

    class Process(gpytorch.models.ApproximateGP):  # type: ignore[misc]
        def __init__(self, inducing: torch.Tensor) -> None:
            variational = gpytorch.variational
            super().__init__(
                variational.VariationalStrategy(
                    self,
                    inducing,
                    variational.CholeskyVariationalDistribution(len(inducing)),
                    learn_inducing_locations=True,
                )
            )
            self.mean = gpytorch.means.ZeroMean()
            self.covariance = gpytorch.kernels.ScaleKernel(gpytorch.kernels.RBFKernel(ard_num_dims=inducing.shape[1]))

        def forward(self, inputs: torch.Tensor) -> object:
            return gpytorch.distributions.MultivariateNormal(self.mean(inputs), self.covariance(inputs))

    model = Process(inputs[torch.randperm(len(y))[:INDUCING]].clone()).double()
    likelihood = gpytorch.likelihoods.GaussianLikelihood().double()
    likelihood.noise = START_NOISE
    objective = gpytorch.mlls.VariationalELBO(likelihood, model, num_data=len(y))
    adam = torch.optim.Adam([*model.parameters(), *likelihood.parameters()], lr=SVGP_STEP)
    model.train(), likelihood.train()
    for _ in range(epochs or EPOCHS):
        for batch in torch.split(torch.randperm(len(y)), BATCH):
            adam.zero_grad()
            loss = -objective(model(inputs[batch]), outputs[batch])
            loss.backward()
            adam.step()
    model.eval(), likelihood.eval()

    def predict(points: Rows) -> tuple[Numbers, Numbers]:
        with torch.no_grad():
            parts = [likelihood(model(some)) for some in torch.split(torch.from_numpy(points), _AT_ONCE)]
        return (
            np.concatenate([each.mean.numpy() for each in parts]),
            np.concatenate([each.variance.numpy() for each in parts]),
        )

    return predict


# -- others -----------------------------------------------------------------------------------------------------------


def sklearn_process(x: Rows, y: Numbers, seed: int) -> Predictor:
    """Fit scikit-learn's process with its default optimizer and start."""
    from sklearn.gaussian_process import GaussianProcessRegressor
    from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

    kernel = ConstantKernel(1.0) * RBF(np.ones(x.shape[1])) + WhiteKernel(START_NOISE)
    process = GaussianProcessRegressor(kernel, random_state=seed).fit(x, y)

    def predict(points: Rows) -> tuple[Numbers, Numbers]:
        mean, deviation = process.predict(points, return_std=True)
        return mean, deviation**2

    return predict


def full(x: Rows, y: Numbers, seed: int) -> Predictor:
    """Fit one expert of the project to all rows; many rows share hyperparameters fitted to some of them."""
    from numerics.gp.expert import Expert
    from numerics.gp.kernel_registry import kernel_of
    from numerics.gp.likelihood import fit_one
    from scenarios.gp.baselines import ROWS_DRAWN, ROWS_FIT

    kernel = kernel_of("se", x.shape[1])
    rows = None if len(y) <= ROWS_FIT else ROWS_DRAWN
    theta = fit_one(kernel, x, y, rows=rows, rng=np.random.default_rng(seed))
    expert = Expert(kernel, theta, x, y)

    def predict(points: Rows) -> tuple[Numbers, Numbers]:
        mean, explained = expert.predict(points)
        return mean, kernel.diagonal(theta[:-1], points) - explained + np.exp(2 * theta[-1])

    return predict
