"""Payloads of attribute-distributed regression: what crosses the wire (docs/residual.md, "What left my site").

Every site is an agent that holds other columns of the same entities. An agent gets a number for every row to fit (the
outcome, a residual, or an improved target) and answers with its predictions for these rows. At the end it gets the
outcome once more, and answers with its own predictions of the test rows (`Compare`).

What that reveals: whoever does the fusion center's arithmetic sees, for every entity, each agent's prediction of the
outcome, and nothing else of its columns; with a tree, rows of one leaf have equal numbers. The agents see the residual
of every entity. Rows are matched by keyed hashes of the entities' names. If a site holds the outcome, or the residual
goes from agent to agent, these payloads are sealed (`SealedAsk`, `Pass`): encrypted for the receiving site. The center
relays the bytes.
"""

from protocols.residual.learning_payloads import (
    Bin,
    Compare,
    Conclude,
    Enrol,
    EntityBins,
    Fit,
    FittedValues,
    Holdings,
    Order,
    PredictionsAlone,
    Ready,
    Receipt,
    Show,
    TrialFit,
    Try,
    rounded,
)
from protocols.residual.prediction_payloads import AgentPredictions, Predict
from protocols.residual.sealed_payloads import (
    Fuse,
    FusionStep,
    KeepEnsemble,
    Lead,
    NextResidual,
    Part,
    Pass,
    PredictionCount,
    Present,
    Residual,
    SealedAnswer,
    SealedAsk,
    Sum,
)

__all__ = [
    "AgentPredictions",
    "Bin",
    "Compare",
    "Conclude",
    "Enrol",
    "EntityBins",
    "Fit",
    "FittedValues",
    "Fuse",
    "FusionStep",
    "Holdings",
    "KeepEnsemble",
    "Lead",
    "NextResidual",
    "Order",
    "Part",
    "Pass",
    "Predict",
    "PredictionCount",
    "PredictionsAlone",
    "Present",
    "Ready",
    "Receipt",
    "Residual",
    "SealedAnswer",
    "SealedAsk",
    "Show",
    "Sum",
    "TrialFit",
    "Try",
    "rounded",
]
