"""Settings of Select-Exchange-Cluster, a site's consents, and where predictions are made."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from common import settings
from common.settings import ConfigError, setting
from common.value_ranges import POSITIVE, ValueRange, at_least, between
from protocols.prediction import Prediction
from protocols.settings import ProtocolSettings


@dataclass(frozen=True)
class Settings(ProtocolSettings, prefix="sec"):
    """Settings of model selection, exchange, clustering and combination, and of a scenario's learners."""

    tasks: ClassVar[tuple[str, ...]] = ("regression", "classification")

    candidates: str = setting("rf lr", "methods that a learner chooses among, e.g. 'lr rf(max_depth=3)'", unset="")
    selection: Literal["k-fold", "half-half"] = setting(
        "k-fold",
        "how a learner chooses its method: by five folds (k-fold), or on one half of its rows after a fit to the other"
        " (half-half)",
        unset="",
    )
    standardize: Literal["learner", "model", "none"] = setting(
        "model",
        "standardize rows inside the model (model), by each learner itself (learner), or not (none)",
        unset="",
    )
    min_leaf: int = setting(5, "fewest rows in a leaf of a tree that leaves the site", at_least(1), unset=0)
    reference: Literal["left-out", "fitted", "cv"] = setting(
        "left-out",
        "error of a learner's own model: on rows left out of its fit (left-out), on those of its fit (fitted), or by"
        " sec.selection (cv)",
        unset="",
    )
    scale: Literal["mean", "median"] = setting(
        "mean", "dissimilarity with similarity 1/e: mean or median over the pairs"
    )
    k: int = setting(0, "number of clusters", at_least(0), words="chosen by sec.k-method")
    k_method: Literal["held-out", "eigengap", "gap"] = setting(
        "held-out", "how the number of clusters is chosen", unset=""
    )
    k_min: int = setting(
        1, "fewest clusters to choose from", ValueRange("1 or 2", lambda value: value in (1, 2)), unset=0
    )
    k_max: int = setting(
        0, "most clusters to choose from", at_least(0), words="10, or fewer where there are few learners"
    )
    exchange: Literal["all", "landmarks"] = setting(
        "all", "models that every learner tries: all, or those of some landmarks"
    )
    landmarks: int = setting(
        0, "number of landmarks", at_least(0), words="twice the root of the number of learners, 20 at least"
    )
    combine: Literal["average", "pooled-linear", "pooled-rows"] = setting(
        "average",
        "prediction of a cluster: mean of its models (average), its linear regression (pooled-linear), or one model of"
        " the rows of sites that allow-pooling (pooled-rows)",
        unset="",
    )
    weights: Literal["precision", "rows"] = setting(
        "precision",
        "weight of a model in eq. (5): rows over error (precision), or rows",
        unset="",
    )
    newcomers: str = setting(
        "",
        "sites, names or globs, that are assigned to the clusters of the others",
        words="none, or what the scenario sets",
    )
    assign: Literal["sum", "mean"] = setting(
        "sum", "newcomers join the cluster with the largest sum or mean of similarities"
    )
    join: str = setting("", "results directory of an earlier run whose clusters this run's sites join", path=True)
    holdout: float = setting(
        0.2,
        "own data: share of a site's rows on which predictions are compared",
        between(0, 0.9),
    )
    allow_row_models: bool = setting(
        False, "simulation: models that hold rows (knn, svr) may be candidates; a scenario's table may set it"
    )
    p: int = setting(5, "scenario: number of inputs", at_least(1), unset=0, data=True)
    snr: float = setting(16.0, "scenario: signal-to-noise ratio", POSITIVE, unset=0, data=True)
    effect: float = setting(1.0, "scenario: coefficient of the sensitive variable", POSITIVE, unset=0, data=True)
    attacked: int = setting(0, "scenario: number of attacked learners", at_least(0), data=True)

    @property
    def pooled(self) -> bool:
        """Whether clusters predict by a pooled linear regression."""
        return self.combine == "pooled-linear"

    @property
    def pools_rows(self) -> bool:
        """Whether the center asks sites for rows, and fits a cluster's model to them."""
        return self.combine == "pooled-rows"

    @property
    def newcomer_patterns(self) -> tuple[str, ...]:
        """Names or globs of the sites that are assigned to the clusters of the others."""
        return tuple(self.newcomers.replace(",", " ").split())

    def check_together(self, config: Mapping[str, Any], files: Collection[str]) -> None:
        """As of `ProtocolSettings`."""
        if self.k_method == "held-out" and not self.k and self.reference != "left-out":
            raise ConfigError(
                f"sec.k-method=held-out needs errors on rows left out of the fit: set sec.reference=left-out, not"
                f" {self.reference!r}, or set sec.k or another sec.k-method"
            )
        if self.pools_rows and self.standardize == "learner":
            raise ConfigError(
                "rows that every learner has standardized by itself cannot be pooled: set sec.standardize=model, or"
                " another sec.combine"
            )
        if self.pools_rows and self.join:
            raise ConfigError(
                "sec.join and sec.combine=pooled-rows do not go together: the rows of the earlier run are not kept; set"
                " sec.combine=average in both"
            )
        if "test" in files and self.standardize == "learner":
            raise ConfigError(
                "models of standardized rows cannot predict the center's test rows: set sec.standardize=model, or"
                " remove the test file"
            )


@dataclass(frozen=True)
class Consents(settings.Settings):
    """Keys of a site's node configuration."""

    candidates: str = setting("", "the site's own list of methods", words="the run's")
    min_leaf: int = setting(5, "fewest rows in a leaf of a tree; the larger of this and the run's applies", at_least(1))
    allow_row_models: bool = setting(False, "models that hold rows (knn, svr) may leave the site")
    allow_pooling: bool = setting(
        False, "ALL rows that are not held out may go to the center, if a run has sec.combine=pooled-rows"
    )


PREDICTION = Prediction(at_center=True)
