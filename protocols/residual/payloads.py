"""What crosses the wire in attribute-distributed regression (docs/residual.md, "What left my site").

Every site is an agent that holds other columns of the same entities. An agent is sent numbers to fit, one a row - the
outcome, a residual, or a prediction that would have been better - and answers with what it predicts for these rows.

What that reveals: whoever does the fusion center's arithmetic sees, for every entity, what each agent's columns say of
the outcome, and nothing else of the columns; with a tree, rows of one leaf show as equal numbers. The agents see the
outcome's residual of every entity. Rows are matched by keyed hashes of the entities' names. Where a site holds the
outcome, and where the residual travels from agent to agent, all of this crosses sealed (`Sealed`, `Pass`): what is in
them is one of the payloads declared here, encrypted for the site that it is meant for, and the center relays bytes.
"""

from protocols.residual.learning_payloads import (
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
