"""Which settings of gp go together."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from numerics.gp.kernel_registry import kernel_of
from protocols.gp.payloads import MOST_TRIED
from protocols.gp.settings import Settings
from strategies.errors import FusionError

_LEARNING_KEYS = ("kernel", "max-expert-rows", "local", "noise", "fit-rounds", "candidates", "gate-rounds")
"""Settings of a run that learns. A run that predicts takes them from the earlier run, or does not need them."""


def check_configuration(config: Mapping[str, Any], settings: Settings, repetitions: int) -> None:
    """Refuse settings that cannot be, or have no effect, together.

    Raises
    ------
    FusionError
        With the key, and what it needs.
    """
    try:
        kernel_of(settings.kernel, 1)
    except ValueError as error:
        raise FusionError(f"gp.kernel: {error}") from error
    _refuse_ineffective_keys(config, settings)
    if settings.suggest and not settings.joint:
        raise FusionError(
            "gp.suggest needs answers about landmarks: gp.aggregation=npae, gp.covariance=sketch, gp.answers above 1"
        )
    if settings.fit_rounds * settings.candidates > MOST_TRIED:
        raise FusionError(f"gp.fit-rounds times gp.candidates is more than the {MOST_TRIED} that a site tries in a run")
    if config["protocol"] and repetitions > 1:
        raise FusionError("repeated runs on the sites' own rows are all the same; leave repetitions out")


def _refuse_ineffective_keys(config: Mapping[str, Any], settings: Settings) -> None:
    """Refuse a key that has no effect with the other settings."""
    earlier = bool(str(config["from"]).strip())
    npae = settings.aggregation == "npae"
    purposes: dict[str, str | bool] = dict.fromkeys(
        _LEARNING_KEYS, earlier and "a run that learns, not for a run that predicts (from)"
    )
    if config["protocol"]:  # only some rows of a scenario's table need a key
        purposes |= {
            "covariance": not npae and "gp.aggregation=npae",
            "answers": not settings.sketched and "gp.aggregation=npae with gp.covariance=sketch",
            "landmarks": (not settings.sketched and "gp.aggregation=npae with gp.covariance=sketch")
            or (settings.joint and "gp.answers=1: with several answers, it is their number less one"),
            "communication": settings.aggregation != "grbcm" and "gp.aggregation=grbcm",
            "experts": settings.gate == "all" and "a gate that chooses",
        }
        if settings.gate != "dnn":
            purposes["gate-rounds"] = "gp.gate=dnn"
    keys = Settings.keys()
    for key, purpose in purposes.items():
        if purpose and config[f"gp.{key}"] != keys[f"gp.{key}"].declared:
            raise FusionError(f"gp.{key} is for {purpose}: leave it out")
