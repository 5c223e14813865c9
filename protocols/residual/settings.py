"""Settings of attribute-distributed regression, a site's consents, and the configuration of predictions."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

from common import settings
from common.settings import ConfigError, setting
from common.value_ranges import ValueRange, at_least, below, between
from numerics.residual.rules import MOST_POWERS, MOST_ROUNDS
from protocols.prediction import Prediction
from protocols.settings import ProtocolSettings

if TYPE_CHECKING:
    from numerics.residual.rules import Rules


def _is_power(text: str) -> bool:
    try:
        return 1 <= float(text) <= 20
    except ValueError:
        return False


def _are_powers(text: str) -> bool:
    return 0 < len(text.split()) <= MOST_POWERS and all(_is_power(each) for each in text.split())


_OTHERS: Mapping[str, str] = {
    "power": "parallel",
    "powers": "parallel",
    "step": "parallel",
    "idle_share": "parallel",
    "steps": "greedy or sip",
    "robust": "parallel",
    "bins": "bins",
    "bins_epsilon": "bins",
}
"""Settings without effect on the default algorithm, and the algorithms that have them."""


@dataclass(frozen=True)
class Settings(ProtocolSettings, prefix="residual"):
    """Settings of joint learning, of the matching of rows, of numbers on the wire, and of a scenario's data."""

    tasks: ClassVar[tuple[str, ...]] = ("regression", "classification")

    algorithm: Literal["boosted", "bins", "parallel", "greedy", "sip", "average", "meta-linear", "meta-boosting"] = (
        setting(
            "boosted",
            "how the agents learn together",
            unset="",
            other_source="sip in a ring, or what the scenario sets",
        )
    )
    agent: str = setting("tree", "an agent's method, e.g. 'tree' or 'hgb(max_depth=3)'", unset="")
    min_leaf: int = setting(
        0, "fewest rows in a leaf of a tree", at_least(0), words="by the number of rows, or what the scenario sets"
    )
    power: str = setting(
        "auto",
        "p of the reweighting (eq. 37): a number, or auto, chosen on held-out rows",
        ValueRange("'auto' or a number from 1 to 20", lambda value: value == "auto" or _is_power(value)),
        unset="",
    )
    powers: str = setting(
        "1 1.5 2 3 4 5",
        "candidates of p for auto",
        ValueRange(f"numbers from 1 to 20, {MOST_POWERS} at most", _are_powers),
    )
    step: Literal["search", "full"] = setting(
        "search", "parallel: length of a step: back-search (Algorithm 4), or full"
    )
    rounds: int = setting(60, "most iterations", between(1, 100_000), unset=0)
    stop: Literal["rounds", "train", "held-out"] = setting(
        "held-out",
        "stop after all rounds, or when the training error (train) or that of held-out rows no longer falls",
        unset="",
    )
    patience: int = setting(
        0, "iterations without a smaller error before it stops", between(0, 10**9), words="10; of boosted 6"
    )
    shrinkage: float = setting(
        0.0,
        "boosted, sip and greedy: nu",
        ValueRange("0 (not set), or from 0.000001 to 1", lambda value: value == 0 or 1e-6 <= value <= 1),
        words="1; of boosted 0.2",
    )
    steps: int = setting(1, "sip and greedy: residual steps of an agent in one ask", between(1, 1000))
    ridge: float = setting(
        1e-3,
        "lambda of eq. (35), relative to the mean power of a prediction. A scenario's table may set it",
        between(0, 10**9),
    )
    intercept: bool = setting(
        True, "subtract the mean outcome first; the paper's formulas do not. A scenario's table may set it"
    )
    idle_share: float = setting(
        0.0, "parallel: share of the power below which an agent is not asked any more", below(1)
    )
    validation: float = setting(
        0.25,
        "share of the training rows on which p and the number of iterations are chosen",
        ValueRange("greater than 0, below 1", lambda value: 1e-9 <= value <= 1 - 1e-9),
    )
    holdout: float = setting(0.2, "own data: share of the rows that are test rows", between(0, 0.9))
    refit: bool = setting(True, "learn again from all training rows once p and the number of iterations are chosen")
    bins: int = setting(
        32,
        "bins: most bins of a column, of the sites that allow-bins",
        ValueRange("16, 32 or 64", (16, 32, 64).__contains__),
    )
    bins_epsilon: float = setting(
        0.0,
        "bins: eps of randomized response to each column's bins; 0: none. A site may set a smaller one",
        between(0, 100),
    )
    robust: bool = setting(
        False, "leave out, by name, agents that raise the error on validation rows; there is no refit then"
    )
    baselines: bool = setting(True, "own data: compare with each site's own columns alone; not in a ring")
    align: Literal["", "id", "row-order"] = setting(
        "", "match entities by name (id), or by row (row-order)", words="by name where there are names"
    )
    topology: Literal["center", "ring"] = setting(
        "center", "sip: the residual goes through the center, or sealed from agent to agent (ring)"
    )
    precision: Literal["float64", "float32"] = setting("float64", "precision of numbers on the wire")
    correlation: float = setting(
        0.0, "scenario: correlation of the two attributes", below(1), words="the scenario's own", data=True
    )

    @classmethod
    def of(cls, config: Mapping[str, Any]) -> Self:
        """Return the settings of a run configuration; a ring has its own algorithm if the run names none."""
        settings = super().of(config)
        unset = "residual.algorithm" not in settings.explicit()
        return replace(settings, algorithm="sip") if unset and settings.topology == "ring" else settings

    def check_together(self, config: Mapping[str, Any], files: Collection[str]) -> None:
        """As of `ProtocolSettings`."""
        if not config["from"]:  # a prediction has the algorithm of its run
            self._check_algorithm()
        if self.topology == "ring":
            if self.algorithm != "sip":
                raise ConfigError(
                    f"residual.topology=ring is for sip, not for {self.algorithm}: set residual.algorithm=sip"
                )
            if self.robust:
                raise ConfigError("residual.robust needs all predictions in one place, and in a ring no site sees them")
            if self.precision != "float64":
                raise ConfigError("residual.topology=ring hands on numbers of float64: leave residual.precision out")
        try:
            self.rules(keep=bool(config["protocol"]))
        except ValueError as error:
            raise ConfigError(f"residual.rounds times residual.steps is {MOST_ROUNDS} at most") from error

    def _check_algorithm(self) -> None:
        """Refuse `robust` for boosting; and settings without effect on the default algorithm, if the run names none."""
        default = type(self)()
        for name, algorithms in _OTHERS.items():
            if "residual.algorithm" not in self.explicit() and getattr(self, name) != getattr(default, name):
                raise ConfigError(
                    f"residual.{name.replace('_', '-')} is for {algorithms}, and the default is {default.algorithm}:"
                    " set residual.algorithm, too"
                )
        if self.algorithm in ("boosted", "bins") and self.robust:
            raise ConfigError(
                f"residual.robust is not for {self.algorithm}, where no step counts that raises the error on"
                " validation rows: leave it out"
            )

    def rules(self, *, keep: bool) -> Rules:
        """Return how the run learns; `keep`: whether the agents store their models.

        Raises
        ------
        ValueError
            If the settings together are out of range.
        """
        from numerics.residual import boosted  # not for those who only look for keys
        from numerics.residual.rules import Rules

        boosts = self.algorithm in ("boosted", "bins")
        powers = self.powers if self.power == "auto" else self.power
        rules = Rules(
            algorithm=self.algorithm,
            powers=tuple(sorted({float(each) for each in powers.split()})),
            search=self.step != "full",
            rounds=self.rounds,
            stop=self.stop,
            patience=self.patience or (boosted.PATIENCE if boosts else 10),
            shrinkage=self.shrinkage or (boosted.SHRINKAGE if boosts else 1.0),
            steps=self.steps,
            ridge=self.ridge,
            intercept=self.intercept,
            idle_share=self.idle_share,
            validation=self.validation,
            refit=self.refit and not self.robust,  # in a refit no row is left to see who raises the error
            keep=keep,
            robust=self.robust,
            baselines=self.baselines and keep,
            bins=self.bins,
            epsilon=self.bins_epsilon,
        )
        return Rules.from_json(rules.to_json())


@dataclass(frozen=True)
class Consents(settings.Settings):
    """Keys of a site's node configuration."""

    agent: str = setting("", "the site's own method, e.g. 'hgb(max_depth=3)'", words="the run's")
    min_leaf: int = setting(1, "fewest rows in a leaf of a tree; the larger of this and the run's applies", at_least(1))
    allow_bins: bool = setting(
        False,
        "send each row's rank in each column, to 1/64 at best, if residual.algorithm=bins",
    )
    bins_epsilon: float = setting(
        0.0,
        "eps of randomized response to the bins of each column; 0: the run's. The smaller one applies",
        between(0, 100),
    )
    sealed_only: bool = setting(
        False, "answer only sealed for other sites, so that the fusion center sees no prediction"
    )


PREDICTION = Prediction()
"""Sites predict their new rows by the models that they have stored, each from its own file."""
