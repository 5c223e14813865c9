"""Shared instances: the fusion center keeps their gamma, and asks the sites for one sweep at a time."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from jaxtyping import Float64, Int64
from scipy.special import psi

from numerics.bc3e.anderson import gamma_start, kept_gammas
from numerics.bc3e.e_step import Contribution
from numerics.bc3e.gamma import add_alpha, center_part, converged
from numerics.bc3e.grid import from_grid
from numerics.bc3e.reliability import class_bound, class_responsibilities, decisions, is_confusion
from protocols.bc3e.payloads import Shares, Sweep
from strategies.bc3e.layout import Layout

_A_TURN = 100
"""Fewest instances that a site counts in its turn: it rounds numbers of correct decisions (`Tally`)."""


class SharedInstances:
    """Gamma of the shared instances over an E-step (docs/bc3e.md, column and arbitrary distributions).

    The sweeps are those of `numerics.bc3e.e_step.e_step`, with one ask for each. A converged instance leaves the
    sweeps, so its result depends on its own labels only.

    Parameters
    ----------
    layout : Layout
        Labels and instances of the sites.
    starts : Mapping[str, ndarray]
        ``(k, s)`` starts ``votes + r2_n / k`` of a site's shared instances on the grid, by site.
    alpha : ndarray
        ``(k,)`` alpha of the first E-step.
    draws : int
        Draws of theta that an instance's class counts for; 0: classifiers vote.
    alone : bool
        Whether the classifiers alone count (`numerics.bc3e.e_step.EStepSettings`), until it is set to false.
    """

    def __init__(
        self,
        layout: Layout,
        starts: Mapping[str, Int64[np.ndarray, "k s"]],
        alpha: Float64[np.ndarray, "k"],
        draws: int = 0,
        *,
        alone: bool = False,
    ) -> None:
        self.layout = layout
        self.members = set(starts)
        self.gamma = add_alpha(alpha, self._total(starts), layout.bits)
        self._gammas: list[Float64[np.ndarray, "k n"]] = []  # of the last accepted E-steps, and the start
        self._origin = self.gamma
        self._active = np.ones(layout.n_shared, bool)
        self._latest: dict[str, Shares] = {}
        self._share: dict[str, Int64[np.ndarray, "k s"]] = {}
        self.draws, self.alone = draws, alone
        self._classes = np.zeros((layout.k, layout.n_shared), np.int64)  # of the last sweep
        self._accepted_classes = self._classes
        self._evidence: dict[str, Int64[np.ndarray, "k s"]] = {}
        self._first = True
        self._decisions = self._accepted_decisions = np.full(layout.n_shared, -1)

    def begin(self, weights: Float64[np.ndarray, "h"], max_sweeps: int, *, accepted: bool) -> None:
        """Start an E-step by the gamma of the last accepted ones (`numerics.bc3e.anderson.gamma_start`)."""
        if accepted:
            self._gammas = [*self._gammas, self.gamma][-kept_gammas(max_sweeps) :]
            self._accepted_classes, self._accepted_decisions = self._classes, self._decisions
        else:
            self._gammas = self._gammas[-1:]
        self._classes = self._accepted_classes.copy()
        self._first = True
        self._origin = gamma_start(self._gammas, weights, max_sweeps).copy()
        self._active[:] = True
        self._latest.clear()

    def asks(self, *, first: bool) -> dict[str, Sweep]:
        """Return the asks of this sweep by site; the first sweep also asks sites that hold only own clusterings."""
        asks = {}
        for site in sorted(self.members):
            index = self.layout.shared_index[site]
            active = np.flatnonzero(self._active[index])
            if active.size or (first and (index.size or self.layout.own_of(site))):
                asks[site] = self._ask(active, index[active])
        return asks

    def _ask(self, active: Int64[np.ndarray, "a"], places: Int64[np.ndarray, "a"]) -> Sweep:
        return Sweep(active, psi(self._origin[:, places]), first=self._first and self.draws > 0)

    def classes_of(self, site: str) -> Int64[np.ndarray, "k s"]:
        """Return the responsibilities of the classes of a site's shared instances, on the grid."""
        return np.ascontiguousarray(self._classes[:, self.layout.shared_index[site]])

    def closing_asks(self) -> dict[str, Sweep]:
        """Return asks for the sums that need the classes of this E-step, by site; empty if there are none.

        These are the sums of confusion matrices that several sites hold, and all sums of an E-step of the classifiers
        alone, which sweeps over every instance again. A site sends the sums of its own confusion matrices in the next
        E-step.
        """
        common = {name for name in self.layout.common if is_confusion(name)}
        if not self.draws or not (self.alone or common):
            return {}
        self._active[:] = self.alone
        asks = {}
        for site in sorted(self.members):
            index = self.layout.shared_index[site]
            if index.size if not self.alone else (index.size or self.layout.own_of(site)):
                places = np.arange(index.size if self.alone else 0)
                asks[site] = Sweep(places, psi(self._origin[:, index[places]]), self.classes_of(site))
        return asks

    def drop(self, site: str) -> None:
        """Remove a site's models, and sweep over all instances again."""
        self.members.discard(site)
        self._share.pop(site, None)
        self._latest.pop(site, None)
        self._evidence.pop(site, None)
        self._active[:] = True

    def take(
        self,
        answers: Mapping[str, Shares],
        asks: Mapping[str, Sweep],
        alpha: Float64[np.ndarray, "k"],
        tolerance: float,
        *,
        last: bool,
    ) -> None:
        """Apply eq. (6) to the active instances; converged ones leave, and after the `last` sweep all leave."""
        for site, answer in answers.items():
            self._latest[site] = answer
            shape = (self.layout.k, len(self.layout.shared_index[site]))
            share = self._share.setdefault(site, np.zeros(shape, np.int64))
            share[:, asks[site].active] = answer.share
            if answer.evidence.size:
                self._evidence[site] = answer.evidence
        if self.draws:
            moving, evidence = self._active, self._total(self._evidence)
            self._classes[:, moving] = class_responsibilities(
                np.zeros((self.layout.k, np.count_nonzero(moving))) if self.alone else psi(self._origin[:, moving]),
                evidence[:, moving],
                self.draws,
                self.layout.bits,
            ).astype(np.int64)
        after = add_alpha(alpha, self._total(self._share) + self.draws * self._classes, self.layout.bits)
        after[:, ~self._active] = self.gamma[:, ~self._active]
        done = converged(self._origin, after, tolerance, self.layout.bits)
        self._first = False
        self.gamma = after
        self._active &= ~done
        if last:
            self._active[:] = False
        self._origin[:, self._active] = after[:, self._active]

    @property
    def is_moving(self) -> bool:
        """Whether some instance has not converged."""
        return bool(self._active.any())

    def sums(self, alpha: Float64[np.ndarray, "k"]) -> tuple[Contribution, Int64[np.ndarray, "h"] | None]:
        """Return the shared instances' part of the sums, and the inner products of steps of own clusterings."""
        statistics, bound = center_part(alpha, self.gamma, self.layout.bits)
        total = Contribution(self.layout.n_shared, {}, statistics, bound)
        products: Int64[np.ndarray, "h"] | None = None
        for site, answer in self._latest.items():
            mass = dict(zip(self.layout.common_of(site), answer.mass, strict=True))
            squares = dict(zip(mass, answer.squares.tolist(), strict=False))
            total += Contribution(0, mass, np.zeros_like(statistics), answer.bound, squares)
            if answer.products.size:
                products = answer.products if products is None else products + answer.products
        if self.draws:
            bound = class_bound(self._classes.astype(np.float64), self._total(self._evidence), self.layout.bits)
            total += Contribution(0, {}, np.zeros_like(statistics), bound)
        return total, products

    def gains(self) -> dict[str, float]:
        """Return the gains of clusterings that a site alone holds."""
        gains: dict[str, float] = {}
        for site, answer in self._latest.items():
            own = [name for name in self.layout.own_of(site) if not is_confusion(name)]
            gains |= dict(zip(own, answer.gains.tolist(), strict=False))
        return gains

    def changed(self, alpha: Float64[np.ndarray, "k"]) -> int:
        """Count the instances whose class has changed since the last accepted E-step."""
        self._decisions = decisions(self.gamma, alpha if self.draws else np.zeros(0))
        return int(np.count_nonzero(self._decisions != self._accepted_decisions))

    def gamma_of(self, site: str, *, accepted: bool) -> Float64[np.ndarray, "k s"]:
        """Return ``(k, s)`` gamma of a site's shared instances."""
        gamma = self.gamma if accepted else self._gammas[-1]
        return np.ascontiguousarray(gamma[:, self.layout.shared_index[site]])

    def with_and_without(self) -> dict[str, tuple[Float64[np.ndarray, "k s"], Float64[np.ndarray, "k s"]]]:
        """Return, by site, gamma of its shared instances, and gamma without the site's share."""
        gammas = {}
        for site in sorted(self.members & set(self._share)):
            index = self.layout.shared_index[site]
            gamma, bits = self.gamma[:, index], self.layout.bits
            without = gamma - from_grid(self._share[site], bits)
            if self.draws:
                others = self._total(self._evidence)[:, index] - self._evidence.get(site, 0)
                classes = class_responsibilities(psi(gamma), others, self.draws, bits)
                without += self.draws * np.ldexp(classes - self._classes[:, index], -bits)
            gammas[site] = gamma, without
        return gammas

    def instances_to_count(self, site: str) -> Int64[np.ndarray, "c"]:
        """Return the shared instances on which a site counts decisions.

        Each instance is counted once, by a site that holds it and knows true classes. If each gets enough instances,
        the sites take turns, so that none alone determines the accuracy.
        """
        index = self.layout.shared_index[site]
        n_holders, turn = np.zeros(self.layout.n_shared, np.int64), np.zeros(index.size, np.int64)
        judges = sorted(self.members & self.layout.sites_with_truth)
        if site not in judges:
            return np.zeros(0, np.int64)
        for judge in judges:
            places = self.layout.shared_index[judge]
            if judge == site:
                turn = n_holders[places].copy()
            n_holders[places] += 1
        n_turns = np.minimum(n_holders[index], max(1, self.layout.n_shared // _A_TURN))
        return np.flatnonzero(index % n_turns == turn)

    def _total(self, shares: Mapping[str, Int64[np.ndarray, "k s"]]) -> Int64[np.ndarray, "k n"]:
        total = np.zeros((self.layout.k, self.layout.n_shared), np.int64)
        for site, share in shares.items():
            total[:, self.layout.shared_index[site]] += share
        return total
