"""One variational EM of BC3E at the fusion center: E-steps asked of the sites, M-steps here, accelerated."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
from jaxtyping import Float64, Int64

from numerics.bc3e.anderson import DEPTH, PLAIN, ParameterBlock, Weights, project_log_alpha
from numerics.bc3e.e_step import Contribution
from numerics.bc3e.grid import from_grid, one_to_grid
from numerics.bc3e.m_step import (
    expected_log_likelihood,
    expected_log_prior,
    initial_beta,
    maximize_alpha,
    maximize_beta,
    smoothing_bound,
)
from protocols.bc3e.payloads import EStep, Shares, Statistics, Sweep
from protocols.bc3e.settings import Settings
from protocols.wire.payload import Payload, PayloadError
from strategies.bc3e.checks import check_shares, check_statistics
from strategies.bc3e.layout import Layout
from strategies.bc3e.shared import SharedInstances
from strategies.conversation import Conversation, Tell
from strategies.errors import FusionError
from strategies.secure_aggregation import Masking, Total

SWEEPS = 500
"""Sweeps of an E-step at most where it is to run to convergence; on the paper's data it takes 5 to 60."""


@dataclass
class EMFit:
    """Outcome of one EM.

    Attributes
    ----------
    alpha : ndarray
        ``(k,)``.
    beta : dict[str, ndarray]
        ``(k, k_m)`` by clustering, of those whose beta the fusion center holds.
    bound : float
        Evidence lower bound (eq. 3) at alpha, beta.
    rounds : int
        Number of E-steps.
    converged : bool
        Whether the bound's relative change fell below the tolerance.
    bounds : list of float
        Bound after every E-step that was kept.
    accepted : dict[str, bool]
        By site, whether the newest E-step it did is the one that counts.
    shared : SharedInstances or None
        Gamma of the instances that several sites hold.
    """

    alpha: Float64[np.ndarray, "k"]
    beta: dict[str, Float64[np.ndarray, "k k_m"]]
    bound: float = -np.inf
    rounds: int = 0
    converged: bool = False
    bounds: list[float] = field(default_factory=list)
    accepted: dict[str, bool] = field(default_factory=dict)
    shared: SharedInstances | None = None


@dataclass(frozen=True)
class _Sums:
    """Sums over all instances, and the products of the own clusterings' steps."""

    n: int
    mass: dict[str, Int64[np.ndarray, "k k_m"]]
    log_theta: Int64[np.ndarray, "k"]
    bound: float
    products: Int64[np.ndarray, "h"] | None


@dataclass(frozen=True)
class _SiteStatistics:
    """A site's newest statistics, or those of a masked sum, and the parameters they were computed with."""

    statistics: Statistics
    names: tuple[str, ...]
    alpha: Float64[np.ndarray, "k"]
    beta: dict[str, Float64[np.ndarray, "k k_m"]]


class EM:
    """The state of one variational EM, and the conversation that carries it.

    Parameters
    ----------
    layout : Layout
        What the sites hold.
    settings : Settings
        How it is fitted.
    start : int
        Where beta starts: 0 uniform, else the seed of random rows.
    starts : Mapping[str, ndarray]
        By site, where shared instances start; empty in the row distribution.
    """

    def __init__(
        self, layout: Layout, settings: Settings, start: int, starts: Mapping[str, Int64[np.ndarray, "k s"]]
    ) -> None:
        self.layout, self.settings, self.start = layout, settings, start
        self.alpha = np.full(layout.k, settings.alpha)
        self.log_alpha = ParameterBlock(np.log(self.alpha), project_log_alpha)
        self.beta = {
            name: ParameterBlock(initial_beta(name, layout.k, layout.n_clusters[name], start))
            for name in sorted(layout.common)
        }
        self.weights = Weights()
        self.mix = PLAIN
        self.shared = SharedInstances(layout, starts, self.alpha) if starts else None
        self.statistics: dict[str, _SiteStatistics] = {}
        self.accepted_statistics: dict[str, _SiteStatistics] = {}
        self.fit = EMFit(self.alpha, {}, shared=self.shared)
        self.lost_sites: set[str] = set()
        self.answering_sites: set[str] = set()
        self.masking = Masking("statistics", settings.min_sites) if settings.masked else None

    def run(self) -> Conversation[EMFit]:
        """E- and M-steps until the bound's relative change is small (Acharya et al. 2011, II-C)."""
        fit, settings = self.fit, self.settings
        contributors: frozenset[str] = frozenset()
        measure: dict[str, float] = {}
        kept = True
        for step in range(settings.max_rounds):
            sums = yield from self._e_step(step, kept, measure)
            fit.rounds = step + 1
            comparable = contributors == frozenset(self.statistics)
            contributors = frozenset(self.statistics)
            change = sums.bound - fit.bound if comparable and fit.bounds else np.inf
            # An accelerated step may overshoot, a plain one cannot: only the former is taken back. A fall within the
            # rounding of the grid is none.
            kept = len(self.mix) == 1 or change >= -self._slack(sums.n)
            measure = {"bound": sums.bound if kept else fit.bound}
            if np.isfinite(change):
                measure["change"] = change / max(abs(sums.bound), 1.0)
            fit.accepted |= dict.fromkeys(self.answering_sites - self.lost_sites, kept)
            if not kept:
                self._take_back()
                continue
            self.accepted_statistics = dict(self.statistics)
            fit.alpha, fit.bound = self.alpha, sums.bound
            fit.beta = {name: block.x for name, block in self.beta.items()}
            fit.bounds.append(sums.bound)
            fit.converged = abs(change) <= settings.tolerance * abs(sums.bound)
            if fit.converged:
                break
            if not comparable:
                self.weights.forget()
            self._m_step(sums)
        return fit

    # -- E-step -------------------------------------------------------------------------------------------------------

    def _e_step(self, step: int, kept: bool, measure: Mapping[str, float]) -> Conversation[_Sums]:
        """Bring private instances to convergence in one ask, and shared ones sweep by sweep, an ask each."""
        if self.masking:
            return (yield from self._masked_e_step(self.masking, step, measure))
        sweeps = self.settings.sweeps or SWEEPS
        if self.shared:
            self.shared.begin(accepted=kept)
        for number in range(1, sweeps + 1):
            moving = self.shared.asks(first=number == 1) if self.shared else {}
            asks = self._asks(step, moving) if number == 1 else dict(moving)
            # Where only lost sites hold what still moves, there is no site to ask.
            answers = (yield Tell(asks, check=partial(self._check, moving), measure=measure)) if asks else {}
            self._lose(set(asks) - set(answers))
            if number == 1:
                self._keep_statistics(answers)
            if self.shared:
                shares = {site: _part(answer, Shares) for site, answer in answers.items() if site in moving}
                self.shared.take(shares, moving, self.alpha, self.settings.gamma_tolerance, last=number == sweeps)
            if not (self.shared and self.shared.is_moving):
                break
        return self._sums()

    def _asks(self, step: int, sweeps: Mapping[str, Sweep]) -> dict[str, Payload | tuple[Payload, ...]]:
        asks: dict[str, Payload | tuple[Payload, ...]] = {}
        equal: dict[tuple[tuple[str, ...], bool], EStep] = {}  # one payload for sites with equal asks
        for site in sorted(self.layout.instances):
            if site in self.lost_sites:
                continue
            names, accepted = self._names(site), self.fit.accepted.get(site, True)
            if (names, accepted) not in equal:
                equal[names, accepted] = self._e_step_ask(step, names, accepted)
            e_step = equal[names, accepted]
            asks[site] = (e_step, sweeps[site]) if site in sweeps else e_step
        return asks

    def _names(self, site: str) -> tuple[str, ...]:
        """Return the clusterings of a site's statistics; masked ones are of all clusterings at every site."""
        return tuple(self.beta) if self.masking else self.layout.common_of(site)

    def _masked_e_step(self, masking: Masking, step: int, measure: Mapping[str, float]) -> Conversation[_Sums]:
        """Ask for masked statistics, of which the sum alone is seen; all instances are private."""
        k, names = self.layout.k, tuple(self.beta)
        empty = tuple(np.zeros((k, self.layout.n_clusters[name]), np.int64) for name in names)
        zero = Statistics(0, empty, np.zeros(k, np.int64), 0)
        asks: dict[str, Payload] = {site: ask for site, ask in self._asks(step, {}).items() if isinstance(ask, Payload)}
        total: Total[Statistics] = yield from masking.total(asks, zero, measure=measure)
        try:
            n = sum(self.layout.instances[site] for site in total.sites)
            check_statistics(self.layout, self.alpha, names, n, total.sum)
        except PayloadError as error:
            raise FusionError(f"secure-aggregation: {total.name} cannot be a sum of statistics ({error})") from None
        self.answering_sites = set(total.sites)
        self.statistics = {total.name: self._with_parameters(total.sum, names)}
        return self._sums()

    def _e_step_ask(self, step: int, names: tuple[str, ...], accepted: bool) -> EStep:
        return EStep(
            step=step,
            accepted=accepted,
            start=self.start,
            weights=self.mix,
            alpha=self.alpha,
            clusterings=names,
            beta=tuple(self.beta[name].x for name in names),
            grid_bits=self.layout.bits,
            tolerance=self.settings.gamma_tolerance,
            max_sweeps=self.settings.sweeps or SWEEPS,
            smoothing=self.settings.smoothing,
        )

    def _check(self, moving: Mapping[str, Sweep], site: str, answer: Any) -> None:
        """Refuse an answer of other sizes than the agreed ones, or that no labels can have."""
        layout, names = self.layout, self.layout.common_of(site)
        for part in answer if isinstance(answer, tuple) else (answer,):
            if isinstance(part, Statistics):
                n_private = layout.instances[site] - len(layout.shared_rows[site])
                check_statistics(layout, self.alpha, names, n_private, part)
            else:
                history = len(self.log_alpha.points[-DEPTH:]) + 1
                check_shares(layout, names, len(moving[site].active), history, site, part)

    def _lose(self, sites: set[str]) -> None:
        """Note sites that did not answer. Where instances are shared they are lost; else they may come back."""
        for site in sites:
            if self.settings.missing == "drop":
                self.statistics.pop(site, None)
            if self.shared:
                self.lost_sites.add(site)
                self.fit.accepted.pop(site, None)
                self.shared.drop(site)
        if self.lost_sites >= set(self.layout.instances):
            raise FusionError("no site is left")

    def _keep_statistics(self, answers: Mapping[str, Any]) -> None:
        for site, answer in answers.items():
            self.statistics[site] = self._with_parameters(_part(answer, Statistics), self.layout.common_of(site))
        self.answering_sites = set(answers)

    def _with_parameters(self, statistics: Statistics, names: tuple[str, ...]) -> _SiteStatistics:
        return _SiteStatistics(statistics, names, self.alpha, {name: block.x for name, block in self.beta.items()})

    def _sums(self) -> _Sums:
        bits, k = self.layout.bits, self.layout.k
        mass = {name: np.zeros((k, self.layout.n_clusters[name]), np.int64) for name in self.beta}
        total = Contribution(0, mass, np.zeros(k, np.int64), 0)
        products = None
        for site, kept in self.statistics.items():
            part = kept.statistics
            tables = dict(zip(kept.names, part.mass, strict=True))
            newest = self.masking is not None or site in self.answering_sites
            moved = 0 if newest else one_to_grid(self._moved_bound(kept), bits)
            total += Contribution(part.n, tables, part.log_theta, part.bound + moved)
        if self.shared:
            part_of_shared, products = self.shared.sums(self.alpha)
            total += part_of_shared
        bound = total.bound + sum(
            one_to_grid(smoothing_bound(block.x, self.settings.smoothing), bits) for block in self.beta.values()
        )
        return _Sums(total.n, total.mass, total.log_theta, float(np.ldexp(float(bound), -bits)), products)

    def _moved_bound(self, before: _SiteStatistics) -> float:
        """Compute how the bound of a silent site changes with the parameters, its gamma and phi as they were.

        With it the sum over all sites is the bound of incremental EM, which no M-step lowers.
        """
        part, bits = before.statistics, self.layout.bits
        change = expected_log_prior(self.alpha, part.n, from_grid(part.log_theta, bits))
        change -= expected_log_prior(before.alpha, part.n, from_grid(part.log_theta, bits))
        for name, table in zip(before.names, part.mass, strict=True):
            mass = from_grid(table, bits)
            now, then = self.beta[name].x, before.beta[name]
            change += expected_log_likelihood(now, mass) - expected_log_likelihood(then, mass)
        return change

    # -- M-step -------------------------------------------------------------------------------------------------------

    def _m_step(self, sums: _Sums) -> None:
        """Eqs. (7) and (8), then the combination with earlier steps."""
        log_alpha = self.log_alpha.x
        if self.settings.learn_alpha:
            mean = from_grid(sums.log_theta, self.layout.bits) / sums.n
            log_alpha = np.log(maximize_alpha(self.alpha, mean))
        images = [(self.log_alpha, log_alpha)]
        images += [
            (block, maximize_beta(sums.mass[name], self.layout.bits, self.settings.smoothing))
            for name, block in self.beta.items()
        ]
        products = sum(block.products(image) for block, image in images)
        if sums.products is not None:
            products = products + sums.products
        self.weights.accept(np.asarray(products))
        for block, image in images:
            block.accept(image)
        self.mix = self.weights.solve() if self.settings.accelerate else PLAIN
        self._move()

    def _take_back(self) -> None:
        """The bound fell: go back, and on by a plain step."""
        self.statistics = {site: kept for site, kept in self.accepted_statistics.items() if site in self.statistics}
        self.mix = PLAIN
        self.weights.reject()
        self.log_alpha.forget()
        for block in self.beta.values():
            block.forget()
        self._move()

    def _move(self) -> None:
        self.log_alpha.move(self.mix)
        if self.settings.learn_alpha:
            self.alpha = np.exp(self.log_alpha.x)
        for block in self.beta.values():
            block.move(self.mix)

    def _slack(self, n: int) -> float:
        """What rounding to the grid can take from the bound: half a step for each summand, before and after."""
        summands = n * (len(self.layout.n_clusters) + 2)
        return float(np.ldexp(summands, -self.layout.bits))


def _part(answer: Any, kind: type[Any]) -> Any:
    return next(part for part in (answer if isinstance(answer, tuple) else (answer,)) if isinstance(part, kind))
