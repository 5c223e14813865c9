"""What a type checker knows. Written by make keys (consilience/signatures.py)."""

# fmt: off
# ruff: noqa: E501

from collections.abc import Mapping, Sequence
from os import PathLike
from typing import Any, Literal, TypedDict

from common.settings import Settings as _Declared
from consilience.finished_run import Run

Text = str | float | Sequence[str] | PathLike[str]

class Settings(_Declared): ...

class BC3E(Settings):
    def __init__(
        self,
        *,
        distribution: Literal["row", "column", "arbitrary"] = ...,
        classes: int = ...,
        max_rounds: int = ...,
        tolerance: float = ...,
        stop: Literal["bound", "labels", "both"] = ...,
        stop_share: float = ...,
        accelerate: bool = ...,
        sweeps: int = ...,
        smoothing: float = ...,
        reliability: Literal["confusion", "none"] = ...,
        draws: int = ...,
        alpha: float = ...,
        learn_alpha: bool = ...,
        restarts: int = ...,
        abstain: float = ...,
        missing: Literal["keep", "drop"] = ...,
        robust: bool = ...,
        allow_single_model: bool = ...,
        labeled: float = ...,
        clusterings: Literal["k", "k-3k-6k", "k-2k-4k-6k"] = ...,
    ) -> None: ...
    distribution: Literal["row", "column", "arbitrary"]
    classes: int
    max_rounds: int
    tolerance: float
    stop: Literal["bound", "labels", "both"]
    stop_share: float
    accelerate: bool
    sweeps: int
    smoothing: float
    reliability: Literal["confusion", "none"]
    draws: int
    alpha: float
    learn_alpha: bool
    restarts: int
    abstain: float
    missing: Literal["keep", "drop"]
    robust: bool
    allow_single_model: bool
    labeled: float
    clusterings: Literal["k", "k-3k-6k", "k-2k-4k-6k"]

class Coreset(Settings):
    def __init__(
        self,
        *,
        k: int = ...,
        size: int = ...,
        construction: Literal["bico", "kmeans"] = ...,
        projection: int = ...,
        min_weight: int = ...,
        scale: Literal["variance", "none"] = ...,
        algorithm: Literal["fair-kmeans++", "fair-lloyd", "cklv", "reassigned-cklv"] = ...,
        balance: float = ...,
        overlapping: bool = ...,
        bounds: Text = ...,
        restarts: int = ...,
        center_size: int = ...,
        assignment: Literal["coreset", "exact"] = ...,
        refine: int = ...,
        gap: float = ...,
        price_rounds: int = ...,
        alone: bool = ...,
        robust: bool = ...,
        rows: int = ...,
        split: Literal["random", "column", "group"] = ...,
        balanced: Literal["", "yes", "no"] = ...,
        groups: int = ...,
        dimension: int = ...,
        planted: int = ...,
    ) -> None: ...
    k: int
    size: int
    construction: Literal["bico", "kmeans"]
    projection: int
    min_weight: int
    scale: Literal["variance", "none"]
    algorithm: Literal["fair-kmeans++", "fair-lloyd", "cklv", "reassigned-cklv"]
    balance: float
    overlapping: bool
    bounds: str
    restarts: int
    center_size: int
    assignment: Literal["coreset", "exact"]
    refine: int
    gap: float
    price_rounds: int
    alone: bool
    robust: bool
    rows: int
    split: Literal["random", "column", "group"]
    balanced: Literal["", "yes", "no"]
    groups: int
    dimension: int
    planted: int

class GP(Settings):
    def __init__(
        self,
        *,
        kernel: Text = ...,
        gate: Literal["knn", "gaussian", "dnn", "ggm", "all"] = ...,
        experts: Text = ...,
        aggregation: Literal["npae", "poe", "gpoe", "bcm", "rbcm", "grbcm"] = ...,
        covariance: Literal["sketch", "inputs"] = ...,
        answers: int = ...,
        landmarks: int = ...,
        max_expert_rows: int = ...,
        local: int = ...,
        noise: Literal["common", "site"] = ...,
        fit_rounds: int = ...,
        candidates: int = ...,
        gate_rounds: int = ...,
        communication: float = ...,
        outliers: Literal["auto", "keep"] = ...,
        robust: bool = ...,
        alone: bool = ...,
        suggest: bool = ...,
        queries: Text = ...,
        parts: int = ...,
        rows: int = ...,
        split: Literal["kmeans", "random"] = ...,
    ) -> None: ...
    kernel: str
    gate: Literal["knn", "gaussian", "dnn", "ggm", "all"]
    experts: str
    aggregation: Literal["npae", "poe", "gpoe", "bcm", "rbcm", "grbcm"]
    covariance: Literal["sketch", "inputs"]
    answers: int
    landmarks: int
    max_expert_rows: int
    local: int
    noise: Literal["common", "site"]
    fit_rounds: int
    candidates: int
    gate_rounds: int
    communication: float
    outliers: Literal["auto", "keep"]
    robust: bool
    alone: bool
    suggest: bool
    queries: str
    parts: int
    rows: int
    split: Literal["kmeans", "random"]

class Residual(Settings):
    def __init__(
        self,
        *,
        algorithm: Literal["boosted", "bins", "parallel", "greedy", "sip", "average", "meta-linear", "meta-boosting"] = ...,
        agent: Text = ...,
        min_leaf: int = ...,
        power: Text = ...,
        powers: Text = ...,
        step: Literal["search", "full"] = ...,
        rounds: int = ...,
        stop: Literal["rounds", "train", "held-out"] = ...,
        patience: int = ...,
        shrinkage: float = ...,
        steps: int = ...,
        ridge: float = ...,
        intercept: bool = ...,
        idle_share: float = ...,
        validation: float = ...,
        holdout: float = ...,
        refit: bool = ...,
        bins: int = ...,
        bins_epsilon: float = ...,
        robust: bool = ...,
        baselines: bool = ...,
        align: Literal["", "id", "row-order"] = ...,
        topology: Literal["center", "ring"] = ...,
        precision: Literal["float64", "float32"] = ...,
        correlation: float = ...,
    ) -> None: ...
    algorithm: Literal["boosted", "bins", "parallel", "greedy", "sip", "average", "meta-linear", "meta-boosting"]
    agent: str
    min_leaf: int
    power: str
    powers: str
    step: Literal["search", "full"]
    rounds: int
    stop: Literal["rounds", "train", "held-out"]
    patience: int
    shrinkage: float
    steps: int
    ridge: float
    intercept: bool
    idle_share: float
    validation: float
    holdout: float
    refit: bool
    bins: int
    bins_epsilon: float
    robust: bool
    baselines: bool
    align: Literal["", "id", "row-order"]
    topology: Literal["center", "ring"]
    precision: Literal["float64", "float32"]
    correlation: float

class SEC(Settings):
    def __init__(
        self,
        *,
        candidates: Text = ...,
        selection: Literal["k-fold", "half-half"] = ...,
        standardize: Literal["learner", "model", "none"] = ...,
        min_leaf: int = ...,
        reference: Literal["left-out", "fitted", "cv"] = ...,
        scale: Literal["mean", "median"] = ...,
        k: int = ...,
        k_method: Literal["held-out", "eigengap", "gap"] = ...,
        k_min: int = ...,
        k_max: int = ...,
        exchange: Literal["all", "landmarks"] = ...,
        landmarks: int = ...,
        combine: Literal["average", "pooled-linear", "pooled-rows"] = ...,
        weights: Literal["precision", "rows"] = ...,
        newcomers: Text = ...,
        assign: Literal["sum", "mean"] = ...,
        join: Text = ...,
        holdout: float = ...,
        allow_row_models: bool = ...,
        p: int = ...,
        snr: float = ...,
        effect: float = ...,
        attacked: int = ...,
    ) -> None: ...
    candidates: str
    selection: Literal["k-fold", "half-half"]
    standardize: Literal["learner", "model", "none"]
    min_leaf: int
    reference: Literal["left-out", "fitted", "cv"]
    scale: Literal["mean", "median"]
    k: int
    k_method: Literal["held-out", "eigengap", "gap"]
    k_min: int
    k_max: int
    exchange: Literal["all", "landmarks"]
    landmarks: int
    combine: Literal["average", "pooled-linear", "pooled-rows"]
    weights: Literal["precision", "rows"]
    newcomers: str
    assign: Literal["sum", "mean"]
    join: str
    holdout: float
    allow_row_models: bool
    p: int
    snr: float
    effect: float
    attacked: int

class RunKeywords(TypedDict, total=False):
    repetitions: int
    cells: Text
    from_: Run | str | PathLike[str]
    min_sites: int
    round_timeout: float
    max_payload_mb: float
    secure_aggregation: bool
    task: Literal["auto", "regression", "classification"]
    class_weight: Literal["none", "balanced"]
    features: Text
    missing: Literal["refuse", "drop", "impute"]
    indicators: Text
    categories: Mapping[str, Sequence[str]] | Text
    ordinal: Mapping[str, Sequence[str]] | Text
    id: Text
    group: Text
    sensitive: Text
    classes: Text
    clusters: Text
    truth: Text
    align_key_file: Text

Decision = Literal["join", "do not join", "too few rows", "undecided"]

class Way:
    metric: str
    kind: str
    words: str
    value: float
    gain: float | None
    error: float | None
    n: int
    state: str

class Verdict:
    decision: Decision
    words: str
    reason: str
    use: str
    more: int
    measure: str
    ways: tuple[Way, ...]
    warnings: tuple[str, ...]
    def as_data(self) -> 'dict[str, Any]': ...

class Report:
    schema: int
    scenario: str
    protocol: str
    seed: int
    sites: list[str]
    rounds: int
    seconds: float
    metrics: dict[str, float]
    published: dict[str, float]
    table: list[dict[str, Any]]
    ledger: dict[str, Any]
    versions: dict[str, str]
    missing: dict[str, list[str]]
    lost: list[str]
    notes: list[str]
    config: dict[str, Any]
    command: str
    convergence: list[dict[str, Any]]
    session: str
    overview: dict[str, str]
    differences: dict[str, dict[str, float]]
    shorthand: str
    influence: dict[str, Any]
    verdict: dict[str, Any]
    figures: list[dict[str, Any]]
    def to_json(self) -> 'str': ...

class SettingError(ValueError): ...
class ConfigError(SettingError): ...
class CheckpointError(ValueError): ...
class DataError(ValueError): ...
class FusionError(RuntimeError): ...
class ResultsError(ValueError): ...
class ScenarioError(ValueError): ...
