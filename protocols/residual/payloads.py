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
    Bin as Bin,
    Compare as Compare,
    Conclude as Conclude,
    Enrol as Enrol,
    EntityBins as EntityBins,
    Fit as Fit,
    FittedValues as FittedValues,
    Holdings as Holdings,
    Order as Order,
    PredictionsAlone as PredictionsAlone,
    Ready as Ready,
    Receipt as Receipt,
    Show as Show,
    TrialFit as TrialFit,
    Try as Try,
    rounded as rounded,
)
from protocols.residual.prediction_payloads import (
    AgentPredictions as AgentPredictions,
    Predict as Predict,
)
from protocols.residual.sealed_payloads import (
    Fuse as Fuse,
    FusionStep as FusionStep,
    KeepEnsemble as KeepEnsemble,
    Lead as Lead,
    NextResidual as NextResidual,
    Part as Part,
    Pass as Pass,
    PredictionCount as PredictionCount,
    Present as Present,
    Residual as Residual,
    SealedAnswer as SealedAnswer,
    SealedAsk as SealedAsk,
    Sum as Sum,
)
