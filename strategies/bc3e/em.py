"""Variational EM of bc3e at the fusion center: the sites do E-steps, the center does accelerated M-steps."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from jaxtyping import Int64

from numerics.bc3e.anderson import DEPTH, GAMMA_TOLERANCE, PLAIN, SWEEPS, ParameterBlock, Weights, project_log_alpha
from numerics.bc3e.e_step import Contribution
from numerics.bc3e.grid import from_grid, one_to_grid
from numerics.bc3e.m_step import expected_log_likelihood, expected_log_prior, maximize_alpha
from numerics.bc3e.reliability import first_table, gain, is_confusion, maximize_table, mean_gain, prior_bound
from protocols.bc3e.payloads import EStep, Shares, Statistics, Sweep
from protocols.bc3e.settings import Settings
from protocols.wire.payload import Payload, PayloadError
from strategies.bc3e.checks import check_columns, check_number, check_shares, check_statistics
from strategies.bc3e.fitted import EMFit
from strategies.bc3e.influence import site_that_contradicts
from strategies.bc3e.layout import Layout
from strategies.bc3e.shared import SharedInstances
from strategies.bc3e.sums import SiteStatistics, Sums, mass_by_site, without_site
from strategies.conversation import Conversation, Tell
from strategies.errors import FusionError
from strategies.secure_aggregation import Masking, Total

SETTLED_STEPS = 2
"""Number of successive steps with few changed classes after which these stop a fit."""


class EM:
    """State of one variational EM, and its conversation with the sites.

    Parameters
    ----------
    layout : Layout
        Labels and instances of the sites.
    settings : Settings
        Settings of the fit.
    start : int
        Start of beta: uniform if 0, otherwise random with this seed.
    starts : Mapping[str, ndarray]
        ``(k, s)`` starts of the shared instances, by site; empty in the row distribution.
    masking : Masking, optional
        Secure aggregation: the center sees the sum of statistics only.
    """

    def __init__(
        self,
        layout: Layout,
        settings: Settings,
        start: int,
        starts: Mapping[str, Int64[np.ndarray, "k s"]],
        masking: Masking | None = None,
    ) -> None:
        self.layout, self.settings, self.start = layout, settings, start
        self.alpha = np.full(layout.k, settings.alpha)
        self.log_alpha = ParameterBlock(np.log(self.alpha), project_log_alpha)
        self.beta = {
            name: ParameterBlock(first_table(name, layout.k, layout.n_clusters[name], start))
            for name in sorted(layout.common)
        }
        self.weights = Weights()
        self.mix = PLAIN
        self.draws = layout.draws() and (settings.draws or layout.draws())
        # Draws are chosen after a first E-step of the classifiers alone, in a single fit from uniform beta: bounds of
        # fits with different draws cannot be compared.
        self.decides_draws = self.draws > 1 and not settings.draws and settings.restarts <= 1 and not start
        self.shared = (
            SharedInstances(layout, starts, self.alpha, self.draws, alone=self.decides_draws) if starts else None
        )
        self.statistics: dict[str, SiteStatistics] = {}
        self.accepted_statistics: dict[str, SiteStatistics] = {}
        self.fit = EMFit(self.alpha, {}, shared=self.shared, draws=self.draws)
        self.first_mass: dict[str, tuple[Int64[np.ndarray, "k _"], ...]] = {}
        self.lost_sites: set[str] = set()
        self.answering_sites: set[str] = set()
        self.masking = masking

    def run(self) -> Conversation[EMFit]:
        """Alternate E- and M-steps until the relative change of the bound is small (Acharya et al. 2011, II-C)."""
        fit, settings = self.fit, self.settings
        contributors: frozenset[str] = frozenset()
        measure: dict[str, float] = {}
        accepted = True
        for step in range(settings.max_rounds):
            sums = yield from self._e_step(step, accepted, measure)
            fit.rounds = step + 1
            comparable = contributors == frozenset(self.statistics)
            contributors = frozenset(self.statistics)
            change = sums.bound - fit.bound if comparable and fit.bounds else np.inf
            # A plain step cannot lower the bound, but an accelerated one can: then it is taken back. The slack allows
            # for the rounding of the grid.
            accepted = len(self.mix) == 1 or change >= -self._slack(sums.n)
            measure = {"bound": sums.bound if accepted else fit.bound}
            if np.isfinite(change):
                measure["change"] = change / max(abs(sums.bound), 1.0)
            fit.accepted |= dict.fromkeys(self.answering_sites - self.lost_sites, accepted)
            if not accepted:
                self._take_back()
                continue
            self._accept(sums)
            fit.converged = self._has_settled(change)
            if fit.converged:
                break
            if self.decides_draws:
                self._choose_draws(sums)
            if not comparable:
                self.weights.forget()
            self._m_step(sums)
        if not self.masking:
            fit.mass = mass_by_site(self.accepted_statistics)
        return fit

    def _accept(self, sums: Sums) -> None:
        """Take the parameters of this E-step, and its sums, as the fit so far."""
        fit = self.fit
        self.accepted_statistics = dict(self.statistics)
        fit.alpha, fit.bound = self.alpha, sums.bound
        fit.beta = {name: block.x for name, block in self.beta.items()}
        fit.bounds.append(sums.bound)
        fit.instances = sums.n
        fit.labels = {name: round(from_grid(mass, self.layout.bits).sum()) for name, mass in sums.mass.items()}
        fit.changed.append(sums.changed / max(sums.n, 1))

    def _has_settled(self, change: float) -> bool:
        """Return whether the fit stops: by its bound, by the classes of the instances, or when both have settled."""
        settings, fit = self.settings, self.fit
        bound = abs(change) <= settings.tolerance * abs(fit.bound)
        labels = len(fit.changed) > SETTLED_STEPS and max(fit.changed[-SETTLED_STEPS:]) <= settings.stop_share
        return {"bound": bound, "labels": labels, "both": bound and labels}[settings.stop]

    def _choose_draws(self, sums: Sums) -> None:
        """Let a class count for fewer draws if clusterings explain much of what the classifiers leave open.

        Fewer draws cannot lower the bound: each adds a mean log probability to it.
        """
        self.decides_draws = False
        gains = self._gains(sums.mass, sums.squares)
        self.fit.gain = mean_gain(gains[name] for name in sorted(gains))
        self.draws = self.layout.draws(gains)
        if not self.masking:
            without = {
                site: self.layout.draws(self._gains(*without_site(sums, source)))
                for site, source in self.statistics.items()
            }
            pivot = {site: draws for site, draws in without.items() if draws != self.draws}
            if len(pivot) == 1:  # of several, none decides by itself
                self.fit.pivot = pivot
                if self.settings.robust:
                    (self.draws,) = pivot.values()
        self.fit.draws = self.draws
        if self.shared:
            self.shared.draws, self.shared.alone = self.draws, False

    def _gains(self, mass: Mapping[str, Int64[np.ndarray, "k k_m"]], squares: Mapping[str, int]) -> dict[str, float]:
        """Return the gain of each clustering, by name."""
        gains = self.shared.gains() if self.shared else {}
        clusterings = [name for name in mass if not is_confusion(name)]
        return gains | {name: gain(mass[name], squares.get(name, 0), self.layout.bits) for name in clusterings}

    # -- E-step -------------------------------------------------------------------------------------------------------

    def _e_step(self, step: int, accepted: bool, measure: Mapping[str, float]) -> Conversation[Sums]:
        """Let private instances converge in one ask, and shared instances in one ask per sweep."""
        if self.masking:
            return (yield from self._masked_e_step(self.masking, step, measure))
        sweeps = self._most_sweeps
        if self.shared:
            self.shared.begin(self.mix, sweeps, accepted=accepted)
        for number in range(1, sweeps + 1):
            moving = self.shared.asks(first=number == 1) if self.shared else {}
            asks: dict[str, Payload | tuple[Payload, ...]] = self._asks(step, moving) if number == 1 else {**moving}
            answers = yield from self._sweep(asks, moving, measure, last=number == sweeps)
            if number == 1:
                self._keep_statistics(answers)
            if not (self.shared and self.shared.is_moving):
                break
        if self.shared and (closing := self.shared.closing_asks()):
            yield from self._sweep(dict(closing), closing, measure, last=True)
        return self._sums()

    def _sweep(
        self,
        asks: dict[str, Payload | tuple[Payload, ...]],
        moving: Mapping[str, Sweep],
        measure: Mapping[str, float],
        *,
        last: bool,
    ) -> Conversation[Mapping[str, Any]]:
        """Ask the sites, take their shares of the instances in `moving`, and return the answers."""
        # If only lost sites hold the instances that have not converged, no site is asked.
        answers = (yield Tell(asks, check=partial(self._check, moving), measure=measure)) if asks else {}
        self._lose(set(asks) - set(answers))
        if self.shared:
            shares = {site: _part(answer, Shares) for site, answer in answers.items() if site in moving}
            self.shared.take(shares, moving, self.alpha, GAMMA_TOLERANCE, last=last)
        return answers

    def _asks(self, step: int, sweeps: Mapping[str, Sweep]) -> dict[str, Payload | tuple[Payload, ...]]:
        """Return the asks of an E-step by site, each with the site's first sweep over shared instances."""
        asks: dict[str, Payload | tuple[Payload, ...]] = {}
        equal: dict[tuple[tuple[str, ...], bool], EStep] = {}  # sites with equal asks get the same payload
        for site in sorted(self.layout.instances):
            if site in self.lost_sites:
                continue
            names, accepted = self._names(site), self.fit.accepted.get(site, True)
            if (names, accepted) not in equal:
                equal[names, accepted] = self._e_step_ask(step, names, accepted)
            e_step = equal[names, accepted]
            if self.shared and step and accepted and any(map(is_confusion, self.layout.own_of(site))):
                e_step = replace(e_step, classes=self.shared.classes_of(site))
            asks[site] = (e_step, sweeps[site]) if site in sweeps else e_step
        return asks

    def _names(self, site: str) -> tuple[str, ...]:
        """Return the clusterings of a site's statistics; with secure aggregation, all clusterings at every site."""
        return tuple(self.beta) if self.masking else self.layout.common_of(site)

    def _masked_e_step(self, masking: Masking, step: int, measure: Mapping[str, float]) -> Conversation[Sums]:
        """Ask for masked statistics, whose sum alone the center sees; all instances are private."""
        k, names = self.layout.k, tuple(self.beta)
        empty = tuple(np.zeros((k, self.layout.n_clusters[name]), np.int64) for name in names)
        squares = np.zeros(len(names) if self.decides_draws else 0, np.int64)
        zero = Statistics(0, empty, np.zeros(k, np.int64), 0, squares=squares)
        asks: dict[str, Payload] = {site: ask for site, ask in self._asks(step, {}).items() if isinstance(ask, Payload)}
        total: Total[Statistics] = yield from masking.total(asks, zero, measure=measure)
        try:
            check_number(sum(self.layout.instances[site] for site in total.sites), total.sum)
            check_statistics(
                self.layout, self.alpha, names, total.sum.n, total.sum, draws=self.draws, alone=self.decides_draws
            )
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
            tolerance=GAMMA_TOLERANCE,
            max_sweeps=self._most_sweeps,
            smoothing=self.settings.smoothing,
            draws=self.draws,
            alone=self.decides_draws,
        )

    @property
    def _most_sweeps(self) -> int:
        """Largest number of sweeps of an E-step; by default to convergence, or one where each is a round."""
        if self.decides_draws:  # nothing converges
            return 1
        return self.settings.sweeps or (1 if self.layout.n_shared else SWEEPS)

    def _check(self, moving: Mapping[str, Sweep], site: str, answer: Any) -> None:
        """Refuse an answer whose sizes do not fit the layout, or that no labels can have."""
        layout, names = self.layout, self.layout.common_of(site)
        for part in answer if isinstance(answer, tuple) else (answer,):
            if isinstance(part, Statistics):
                n_private = layout.instances[site] - len(layout.shared_rows[site])
                check_statistics(layout, self.alpha, names, n_private, part, draws=self.draws, alone=self.decides_draws)
                check_columns(self.first_mass.setdefault(site, part.mass), n_private, part)
            else:
                history = len(self.log_alpha.points[-DEPTH:]) + 1
                check_shares(layout, names, moving[site], history, site, part, alone=self.decides_draws)

    def _lose(self, sites: set[str]) -> None:
        """Record sites that did not answer. With shared instances they are lost; otherwise they may come back."""
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
        if self.settings.robust:
            self._leave_out_contradicting()

    def _leave_out_contradicting(self) -> None:
        """Leave out a site whose sums contradict those of the others, in this step and all later ones."""
        for site in self.fit.left_out:
            self.statistics.pop(site, None)
        if site := site_that_contradicts(mass_by_site(self.statistics), self.layout.bits):
            self.fit.left_out.append(site)
            del self.statistics[site]

    def _with_parameters(self, statistics: Statistics, names: tuple[str, ...]) -> SiteStatistics:
        return SiteStatistics(statistics, names, self.alpha, {name: block.x for name, block in self.beta.items()})

    def _sums(self) -> Sums:
        bits, k = self.layout.bits, self.layout.k
        mass = {name: np.zeros((k, self.layout.n_clusters[name]), np.int64) for name in self.beta}
        total = Contribution(0, mass, np.zeros(k, np.int64), 0)
        products, changed = None, 0
        for site, source in self.statistics.items():
            part = source.statistics
            tables = dict(zip(source.names, part.mass, strict=True))
            newest = self.masking is not None or site in self.answering_sites
            moved = 0 if newest else one_to_grid(self._moved_bound(source), bits)
            squares = dict(zip(source.names, part.squares.tolist(), strict=False))
            total += Contribution(part.n, tables, part.log_theta, part.bound + moved, squares)
            changed += part.changed if newest else 0
        if self.shared:
            part_of_shared, products = self.shared.sums(self.alpha)
            total += part_of_shared
            changed += self.shared.changed(self.alpha)
        bound = total.bound + sum(
            one_to_grid(prior_bound(name, block.x, self.settings.smoothing), bits) for name, block in self.beta.items()
        )
        bound_of_all = float(np.ldexp(float(bound), -bits))
        return Sums(total.n, total.mass, total.log_theta, bound_of_all, products, changed, total.squares)

    def _moved_bound(self, before: SiteStatistics) -> float:
        """Compute the change of a silent site's part of the bound with the parameters, at its last gamma and phi.

        With this change, the sum over all sites is the bound of incremental EM, which no M-step lowers.
        """
        part, bits = before.statistics, self.layout.bits
        change = expected_log_prior(self.alpha, part.n, from_grid(part.log_theta, bits))
        change -= expected_log_prior(before.alpha, part.n, from_grid(part.log_theta, bits))
        for name, table in zip(before.names, part.mass, strict=True):
            mass = from_grid(table, bits)
            new_beta, old_beta = self.beta[name].x, before.beta[name]
            change += expected_log_likelihood(new_beta, mass) - expected_log_likelihood(old_beta, mass)
        return change

    # -- M-step -------------------------------------------------------------------------------------------------------

    def _m_step(self, sums: Sums) -> None:
        """Maximize beta (eq. 7) and alpha (eq. 8), and combine the step with earlier ones."""
        log_alpha = self.log_alpha.x
        if self.settings.learn_alpha:
            mean = from_grid(sums.log_theta, self.layout.bits) / sums.n
            log_alpha = np.log(maximize_alpha(self.alpha, mean))
        images = {"": (self.log_alpha, log_alpha)}
        for name, block in self.beta.items():
            images[name] = block, maximize_table(name, sums.mass[name], self.layout.bits, self.settings.smoothing)
        # Confusion matrices have no products: where instances are shared, their step is known a round later.
        products = sum(block.products(image) for name, (block, image) in images.items() if not is_confusion(name))
        if sums.products is not None:
            products = products + sums.products
        self.weights.accept(np.asarray(products))
        for block, image in images.values():
            block.accept(image)
        self.mix = self.weights.solve() if self.settings.accelerate else PLAIN
        self._move()

    def _take_back(self) -> None:
        """Return to the last accepted parameters, because the bound fell, and go on by a plain step."""
        self.statistics = {site: source for site, source in self.accepted_statistics.items() if site in self.statistics}
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
        """Return the largest rounding error of a change of the bound: half a grid step for each summand, twice."""
        summands = n * (len(self.layout.n_clusters) + 2)
        return float(np.ldexp(summands, -self.layout.bits))


def _part(answer: Any, kind: type[Any]) -> Any:
    return next(part for part in (answer if isinstance(answer, tuple) else (answer,)) if isinstance(part, kind))
