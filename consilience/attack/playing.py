"""Play attacks against a data file, and count the rows that they read."""

from __future__ import annotations

import logging
import os
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float64

from clients.policy import FEWEST_ROWS, Policy
from common.settings import ConfigError
from consilience.attack.interface import Attack, Claims
from consilience.attack.site import AttackedSite, real_node
from protocols import registry
from protocols.settings import RunSettings
from server.report.formatting import counted

EXACT = 0.01
"""Largest width of the box of a known row, as a share of each column's range."""
_CLAIMS_AT_ONCE = 256


@dataclass(frozen=True)
class Outcome:
    r"""Result of an attack.

    Attributes
    ----------
    name, description : str
        Name and description of the attack.
    n_rows : int
        Number of rows of the site.
    rows_out : int
        Number of different rows that the center knows: by true claims of one row, narrower than `EXACT` in every
        column.
    groups_out : int
        Number of true claims of 1 to `min_rows` - 1 rows minus that of wrong ones, so that guessing gains nothing.
    n_claims, n_true : int
        Numbers of all and of true claims of 1 to `min_rows` - 1 rows.
    min_rows : int
        Fewest rows behind a statistic, by the policy.
    n_asks, n_runs : int
        Numbers of asks and runs.
    faults : Mapping[str, int]
        Refusals by their codes.
    notes : list of str
        Further findings.

    Examples
    --------
    >>> outcome = Outcome("guess", "guess rows", 80, 0, 0, 10, 5, 5, 12, 1, {"budget-spent": 2}, [])
    >>> print("\n".join(outcome.lines))
    guess: guess rows
      rows out: 0 of 80
      groups of fewer than 5 rows out: 0 (5 of 10 claims are true)
      asks: 12 in 1 run; refused: 2 budget-spent
    """

    name: str
    description: str
    n_rows: int
    rows_out: int
    groups_out: int
    n_claims: int
    n_true: int
    min_rows: int
    n_asks: int
    n_runs: int
    faults: Mapping[str, int]
    notes: list[str]

    @property
    def lines(self) -> list[str]:
        """Lines for the terminal."""
        refused = ", ".join(f"{count} {code}" for code, count in sorted(self.faults.items()))
        return [
            f"{self.name}: {self.description}",
            f"  rows out: {self.rows_out} of {self.n_rows}",
            f"  groups of fewer than {self.min_rows} rows out: {self.groups_out}"
            f" ({self.n_true} of {self.n_claims} claims are true)",
            f"  asks: {self.n_asks} in {counted(self.n_runs, 'run')}; refused: {refused or 'none'}",
            *(f"  {note}" for note in self.notes),
        ]


def play(
    protocol: str,
    data: Path,
    policy: Path | None = None,
    settings: Mapping[str, Any] | None = None,
    most_runs: int = 1,
    only: str = "",
) -> Iterator[Outcome]:
    """Play every attack of a protocol against a data file under a policy, each in a fresh directory.

    Parameters
    ----------
    protocol : str
        Name of the protocol.
    data : Path
        The site's data file.
    policy : Path or None
        The site's policy file; None: the default policy.
    settings : Mapping
        Keys of the run's and of the node's own configuration; keys that name columns go to the node.
    most_runs : int
        Largest number of runs of an attack.
    only : str
        Name of the one attack to play; empty: all.

    Raises
    ------
    ConfigError
        If the protocol has no attacks, or none of this name.
    DataError, PolicyError
        If the data or the policy cannot be used.
    """
    if not registry.has_room(registry.find(protocol), "attack"):
        raise ConfigError(f"there is no attack on {protocol}")
    module = registry.room(protocol, "attack")
    attacks: Mapping[str, Attack] = module.ATTACKS
    if only and only not in attacks:
        raise ConfigError(f"there is no attack {only!r}; there are: {', '.join(attacks)}")
    run_config, node_keys = _configurations(protocol, settings or {})
    with tempfile.TemporaryDirectory() as folder, _quiet():
        shard = registry.room(protocol, "shard").open_shard({**run_config, **node_keys, "data": str(data)})
        truth = np.asarray(module.true_rows(shard), np.float64)
        ranges = np.stack([truth.min(axis=0), truth.max(axis=0)])
        min_rows = _min_rows(policy)
        for name in [only] if only else attacks:
            node = real_node(data, Path(folder) / name, policy, node_keys)
            site = AttackedSite(node, run_config, ranges, most_runs)
            claims = attacks[name](site)
            yield _count_rows_out(name, attacks[name], claims, truth, min_rows, site)


def _configurations(protocol: str, settings: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the run configuration, and the keys of the node's own."""
    from protocols.settings import checked, declared, run_keys, site_keys

    own = {key for key, each in RunSettings.keys().items() if each.own} | set(site_keys(protocol))
    run = {key: value for key, value in settings.items() if key in run_keys()}
    run_config = checked(declared() | run | {"protocol": protocol, "scenario": ""})
    return {**run_config, "data": ""}, {key: value for key, value in settings.items() if key in own}


def _min_rows(policy: Path | None) -> int:
    return (Policy() if policy is None else Policy.read(policy)).min_rows or FEWEST_ROWS


def _count_rows_out(
    name: str, attack: Attack, claims: Claims, truth: Float64[np.ndarray, "n q"], min_rows: int, site: AttackedSite
) -> Outcome:
    spans = np.ptp(truth, axis=0)
    narrow = (claims.high - claims.low <= EXACT * np.where(spans > 0, spans, np.inf)).all(axis=1)
    true = np.zeros(len(claims.counts), bool)
    known = np.zeros(len(truth), bool)
    for begin in range(0, len(true), _CLAIMS_AT_ONCE):
        part = slice(begin, begin + _CLAIMS_AT_ONCE)
        inside = np.asarray(((truth >= claims.low[part, None]) & (truth < claims.high[part, None])).all(axis=2))
        true[part] = inside.sum(axis=1) == claims.counts[part]
        known |= inside[true[part] & narrow[part] & (claims.counts[part] == 1)].any(axis=0)
    few = (claims.counts > 0) & (claims.counts < min_rows)
    n_true, n_claims = int(true[few].sum()), int(few.sum())
    return Outcome(
        name=name,
        description=(attack.__doc__ or "").strip().splitlines()[0],
        n_rows=len(truth),
        rows_out=int(known.sum()),
        groups_out=max(0, 2 * n_true - n_claims),
        n_claims=n_claims,
        n_true=n_true,
        min_rows=min_rows,
        n_asks=site.n_asks,
        n_runs=site.n_runs,
        faults=dict(site.faults),
        notes=claims.notes,
    )


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep the site's log of refusals from the terminal, and the process's umask as it was."""
    logger, umask = logging.getLogger("flwr"), os.umask(0o077)
    disabled, logger.disabled = logger.disabled, True
    try:
        yield
    finally:
        logger.disabled = disabled
        os.umask(umask)
