"""Payloads of attribute-distributed regression: what crosses the wire (docs/residual.md, "What left my site").

Every site is an agent that holds other columns of the same entities. An agent gets a number for every row to fit (the
outcome, a residual, or an improved target) and answers with its predictions for these rows. At the end it gets the
outcome once more, and answers with what it predicts alone of the test rows (`Compare`).

What that reveals: whoever does the fusion center's arithmetic sees, for every entity, each agent's prediction of the
outcome, and nothing else of its columns; with a tree, rows of one leaf have equal numbers. The agents see the residual
of every entity. Rows are matched by keyed hashes of the entities' names. Where a site holds the outcome, and where the
residual goes from agent to agent, all of this crosses sealed (`Sealed`, `Pass`): one of the payloads declared here,
encrypted for the site that it is meant for. The center relays the bytes.
"""

from protocols.residual.learning_payloads import (
    Bin,
    Binned,
    Compare,
    Compared,
    Conclude,
    Concluded,
    Enrol,
    Enrolled,
    Fit,
    Fitted,
    Order,
    Predict,
    Predicted,
    Ready,
    Show,
    Tried,
    Try,
    rounded,
)
from protocols.residual.sealed_payloads import (
    Fuse,
    Fused,
    KeepEnsemble,
    Lead,
    Part,
    Pass,
    Passed,
    Present,
    Residual,
    Sealed,
    SealedAnswer,
    Sum,
    Summed,
)

__all__ = [
    "Bin",
    "Binned",
    "Compare",
    "Compared",
    "Conclude",
    "Concluded",
    "Enrol",
    "Enrolled",
    "Fit",
    "Fitted",
    "Fuse",
    "Fused",
    "KeepEnsemble",
    "Lead",
    "Order",
    "Part",
    "Pass",
    "Passed",
    "Predict",
    "Predicted",
    "Present",
    "Ready",
    "Residual",
    "Sealed",
    "SealedAnswer",
    "Show",
    "Sum",
    "Summed",
    "Tried",
    "Try",
    "rounded",
]
