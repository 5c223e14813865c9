"""Payloads of Gaussian process experts: what crosses the wire (docs/gp.md, "What left my site").

One ask collects the moments of every site's experts. Further asks, each of which tries several values of the
hyperparameters, find the values that all experts share. A last ask sends every query point to its chosen experts.

What that reveals: the number of rows of every expert, the mean and covariance of their inputs, the mean and variance of
their outputs; sums over a site's rows at each tried value; and predictions at the query points. An expert of few rows
reveals single rows, so a real site with fewer than ``min-rows`` rows takes no part. PREDICTIONS CAN REVEAL SINGLE ROWS,
too: with crafted hyperparameters, a prediction is that of the nearest row alone. A real site therefore rounds its
answers. It rounds those that rest on fewer than five rows most, and gives at most ``max-lone-queries`` of them in a run
(docs/gp.md lists what attacks still read). It predicts with one value of the hyperparameters in a run, for at most
``max-queries`` points, with D + 2 numbers each.

Where the center knows outputs, it also learns how well each site does alone: sums of squared errors (`ErrorsAlone`).

Rows cross in two payloads, which a real site answers only with its own consent: `Inputs` (``allow-inputs``) and `Rows`
(``allow-rows``). A malicious center can also isolate rows through `Slope` (``allow-gate-training``).
"""

from __future__ import annotations

from numerics.shared.exact_sum import LARGEST_TERM
from protocols.gp.learning_payloads import (
    Calibrate as Calibrate,
    CandidateAsk as CandidateAsk,
    Disclose as Disclose,
    Errors as Errors,
    Evaluate as Evaluate,
    ExpertAsk as ExpertAsk,
    Inputs as Inputs,
    LeaveOneOutAsk as LeaveOneOutAsk,
    Likelihood as Likelihood,
    Losses as Losses,
    Moments as Moments,
    Residuals as Residuals,
    Rows as Rows,
    Share as Share,
    Sharpen as Sharpen,
    Slope as Slope,
    Survey as Survey,
    Train as Train,
    Validate as Validate,
)
from protocols.gp.prediction_payloads import (
    ErrorsAlone as ErrorsAlone,
    Predict as Predict,
    PredictAlone as PredictAlone,
    Predictions as Predictions,
)
from protocols.gp.settings import FEWEST_IN_GROUP as FEWEST_IN_GROUP, MOST_GROUPS as MOST_GROUPS

MOST_ROWS = 10**9
"""Largest number of rows of an expert."""
OWN_FIT_ROWS = 500
"""Number of rows from which a site estimates its own best hyperparameters, and whether its outliers mislead."""
MOST_EXPERTS = 10_000
"""Largest number of experts of a site."""
MOST_CANDIDATES = 64
"""Largest number of hyperparameter values in one ask."""
MOST_LANDMARKS = 256
"""Largest number of landmarks: an answer has that many numbers for each point, and two more."""
MOST_ANSWERS = 32
"""Largest number of landmarks at which an expert predicts, besides the point."""
MOST_SHARED = 20_000
"""Largest number of rows of a communication expert."""
MOST_HIDDEN = 10_000
"""Largest number of hidden units of a gate's network."""
LARGEST = 1e50
"""Largest coordinate or output: beyond it, squares and their sums would overflow."""
LARGEST_LOGIT = 50.0
"""Largest origin or unit of the output of a class: logarithms of shares are far smaller."""
CONSENTS = ("allow-gate-training", "allow-inputs", "allow-rows")
"""Consents in a site's own configuration, to `Train`, `Disclose` and `Share`."""
NO_VALUE = -LARGEST_TERM
"""Value of a log likelihood that cannot be computed: so small that a sum shows it (`numerics.shared.exact_sum`)."""
