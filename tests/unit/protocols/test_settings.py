"""The keys of all protocols: declared once, checked, and written into pyproject.toml."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from common.settings import ConfigError, Settings
from consilience.app_folder import with_keys
from protocols import registry
from protocols.coreset import settings as coreset
from protocols.gp import settings as gp
from protocols.residual import settings as residual
from protocols.sec import settings as sec
from protocols.settings import (
    ProtocolSettings,
    RunSettings,
    SiteSettings,
    check_sums,
    checked,
    declared,
    run_keys,
    site_keys,
    taken_from_run,
)
from tests.support.documentation import ROOT

PYPROJECT = (ROOT / "pyproject.toml").read_text(encoding="utf-8")


def flat(table: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """A TOML table by dotted keys."""
    found: dict[str, Any] = {}
    for key, value in table.items():
        found |= flat(value, f"{prefix}{key}.") if isinstance(value, Mapping) else {f"{prefix}{key}": value}
    return found


def test_pyproject_declares_the_keys_of_the_settings() -> None:
    """``make keys`` has been run."""
    assert with_keys(PYPROJECT) == PYPROJECT
    config = flat(tomllib.loads(PYPROJECT)["tool"]["flwr"]["app"]["config"])
    assert config == declared()
    assert [type(value) for value in config.values()] == [type(value) for value in declared().values()]


@pytest.mark.parametrize("protocol", registry.names())
def test_the_settings_of_a_protocol(protocol: str) -> None:
    room = registry.room(protocol, "settings")
    assert issubclass(room.Settings, ProtocolSettings)
    assert all(key.startswith(f"{protocol}.") for key in room.Settings.keys())  # noqa: SIM118
    assert issubclass(room.Consents, Settings)
    assert not any("." in key for key in room.Consents.keys())  # noqa: SIM118
    assert room.Settings.of(declared()) == room.Settings()


@pytest.mark.parametrize("each", [*run_keys().values(), *site_keys().values()], ids=lambda each: each.key)
def test_every_key_is_sound(each: Any) -> None:
    assert each.help
    assert each.check(each.declared) == each.declared
    assert each.check(each.default) == each.default
    assert type(each.default) is each.kind
    assert "\n" not in each.meaning


def test_the_declared_defaults_pass() -> None:
    assert checked(declared()) == declared()


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("seed", "1", "seed must be a whole number, got '1'"),
        ("seed", -1, "seed must be 0 or greater, got -1"),
        ("repetitions", 0, "repetitions must be from 1 to 1000, got 0"),
        ("repetitions", 1001, "repetitions must be from 1 to 1000, got 1001"),
        ("output-dir", "", "output-dir must be not empty, got ''"),
        ("min-sites", 0, "min-sites must be 1 or greater, got 0"),
        ("round-timeout", 0, "round-timeout must be greater than 0, got 0.0"),
        ("round-timeout", float("inf"), "round-timeout must be a finite number, got inf"),
        ("protocol", "fedavg", "there is no protocol 'fedavg'; there are: bc3e, coreset"),
        ("bc3e.distribution", "rows", "bc3e.distribution must be one of 'row', 'column', 'arbitrary', got 'rows'"),
        ("bc3e.classes", 1, "bc3e.classes must be 0, or 2 or greater, got 1"),
        ("bc3e.tolerance", 0.0, "bc3e.tolerance must be greater than 0, got 0.0"),
        ("bc3e.alpha", 0.0, "bc3e.alpha must be from 0.001 to 10000, got 0.0"),
        ("bc3e.labeled", 1.0, "bc3e.labeled must be from 0 to below 1, got 1.0"),
        ("coreset.k", -1, "coreset.k must be 0 (not set), or from 1 to 10000, got -1"),
        ("coreset.balance", 1.5, "coreset.balance must be 0 (not set), or greater than 0, at most 1, got 1.5"),
        ("gp.experts", "1.5", "gp.experts must be empty (not set), or a whole number, or a share greater than 0 and"),
        ("gp.experts", "0", "gp.experts must be empty (not set), or a whole number"),
        (
            "residual.power",
            "21",
            "residual.power must be empty (not set), or 'auto' or a number from 1 to 20",
        ),
        ("residual.powers", "1 x", "residual.powers must be numbers from 1 to 20, 12 at most, got '1 x'"),
        ("residual.validation", 1e-12, "residual.validation must be greater than 0, below 1, got 1e-12"),
        ("sec.k-min", 3, "sec.k-min must be 0 (not set), or 1 or 2, got 3"),
        ("bc3e.max-round", 5, "unknown key 'bc3e.max-round' in the run configuration"),
    ],
)
def test_a_wrong_value_is_refused_in_one_line(key: str, value: Any, message: str) -> None:
    with pytest.raises(ConfigError) as refused:
        checked({**declared(), key: value})
    assert str(refused.value).startswith(message)


def test_a_whole_number_will_do_for_a_fraction() -> None:
    assert type(checked({**declared(), "bc3e.alpha": 2})["bc3e.alpha"]) is float


def test_a_key_that_is_missing_is_named() -> None:
    config = declared()
    del config["seed"], config["bc3e.alpha"]
    with pytest.raises(ConfigError, match=r"^the run configuration lacks seed, bc3e\.alpha$"):
        checked(config)


# -- sites ------------------------------------------------------------------------------------------------------------


def test_a_real_site_takes_from_the_run_nothing_that_is_its_own_to_say() -> None:
    forged = dict.fromkeys((*run_keys(), *site_keys(), "allow-everything"), "forged")
    taken = taken_from_run(forged)
    assert not taken.keys() & site_keys().keys()
    assert not {"data", "target", "features", "align-key-file", "allow-everything"} & taken.keys()
    assert {"protocol", "scenario", "from", "seed", "labels", "gp.kernel"} <= taken.keys()


def test_the_keys_of_a_site() -> None:
    assert {"cache", "min-rows", "policy", "site-output-dir"} <= SiteSettings.keys().keys() <= site_keys("bc3e").keys()
    assert "max-queries" not in site_keys("bc3e")
    assert site_keys("gp")["max-queries"].default == 100_000
    assert (site_keys("sec")["min-rows"].default, site_keys("gp")["min-rows"].default) == (5, 10)
    assert not site_keys().keys() & RunSettings.keys().keys()


# -- secure aggregation -----------------------------------------------------------------------------------------------


def test_secure_aggregation_is_refused_where_nothing_is_summed() -> None:
    config = {**declared(), "secure-aggregation": True}
    check_sums(config, "gp")
    check_sums({**config, "secure-aggregation": False}, "sec")
    with pytest.raises(ConfigError) as refused:
        check_sums(config, "sec")
    assert str(refused.value) == (
        "secure-aggregation=true is for bc3e (bc3e.distribution=row), coreset (coreset.assignment=exact) and gp; the"
        " fusion center of sec needs what each site says, not the sum: leave it out"
    )


# -- protocol by protocol ---------------------------------------------------------------------------------------------


def test_coreset_says_how_rows_are_summed_up() -> None:
    how = coreset.Settings.of({"coreset.k": 3, "coreset.scale": "none"}).how
    assert (how.size, how.construction, how.min_weight, how.scaled) == (600, "bico", 5, False)
    assert coreset.Settings(size=7).how.size == 7


@pytest.mark.parametrize(
    ("settings", "M", "K"),
    [({}, 10, 5), ({}, 5, 3), ({"experts": "0.7"}, 10, 7), ({"experts": "0.07"}, 100, 7),
     ({"experts": "3"}, 10, 3), ({"experts": "30"}, 10, 10), ({"gate": "all", "experts": "3"}, 10, 10)],
)  # fmt: skip
def test_gp_number_of_experts(settings: dict[str, Any], M: int, K: int) -> None:
    assert gp.Settings(**settings).K(M) == K


def test_gp_asks_all_experts_where_sites_have_rows_in_the_same_places_unless_a_number_is_set() -> None:
    assert gp.Settings().K(10, between=0.05) == 10
    assert gp.Settings.of({"gp.experts": ""}).K(10, between=0.9) == 5
    assert gp.Settings(experts="0.5").K(10, between=0.05) == 5


def test_gp_ways_of_covariances() -> None:
    assert (gp.Settings().sketched, gp.Settings().disclosed) == (True, False)
    assert (gp.Settings(covariance="inputs").sketched, gp.Settings(covariance="inputs").disclosed) == (False, True)
    assert not gp.Settings(aggregation="poe", covariance="inputs").disclosed


def test_residual_rules() -> None:
    rules = residual.Settings.of({"residual.power": "2", "residual.step": "full"}).rules(keep=True)
    assert (rules.powers, rules.search, rules.rounds, rules.keep) == ((2.0,), False, 60, True)
    assert residual.Settings().rules(keep=False).powers == (1.0, 1.5, 2.0, 3.0, 4.0, 5.0)
    with pytest.raises(ValueError, match="out of range"):
        residual.Settings(rounds=60_000, steps=2).rules(keep=False)


def test_sec_newcomers() -> None:
    assert sec.Settings(newcomers="site-3?, late site-4?").newcomer_patterns == ("site-3?", "late", "site-4?")
    assert sec.Settings(combine="pooled-linear").pooled


# -- settings of a protocol in another package ------------------------------------------------------------------------


def test_pyproject_without_the_table_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"has 0 tables \[tool\.flwr\.app\.config\]"):
        with_keys("[project]\nname = 'x'\n")
