"""Layout of the labels over sites: common sizes, private and shared instances, common and own clusterings."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Int64

from numerics.bc3e.grid import choose_bits
from numerics.bc3e.reliability import confusion_of, draws_of, is_confusion
from protocols.bc3e.payloads import LARGEST_TABLE, Holdings, Setup
from strategies.errors import FusionError

_FAR = 10
"""Multiple of the usual number of classes or clusters beyond which a site's number is a mistake or a lie."""
_MANY = 100
"""Number of classes or clusters that is never too large."""

LARGEST_SUMMAND = 1100.0
"""Bound of ``|E[log theta]|``: alpha keeps gamma above 1e-3, so the least is psi(1e-3) - psi(1e4), about -1009."""


@dataclass(frozen=True)
class Layout:
    """Labels and instances of all sites.

    Attributes
    ----------
    k : int
        Number of classes.
    bits : int
        Bits of the grid.
    n_clusters : dict[str, int]
        Number of clusters by clustering: the largest over all sites. Where classifiers have confusion matrices, these
        count as clusterings here and below, each with k columns.
    holders : dict[str, list[str]]
        Sites that hold labels of a clustering, by clustering.
    common : frozenset of str
        Clusterings whose beta the fusion center holds.
    instances : dict[str, int]
        Number of instances by site.
    n_classifiers : int
        Number of different classifiers.
    shared_rows : dict[str, ndarray]
        ``(s,)`` rows of a site's instances that other sites hold too, by site.
    shared_index : dict[str, ndarray]
        ``(s,)`` places of these instances among all shared ones, by site.
    n_shared : int
        Number of shared instances.
    classifiers : dict[str, tuple of str]
        Names of its classifiers, by site.
    sites_with_truth : frozenset of str
        Sites that know true classes.
    """

    k: int
    bits: int
    n_clusters: dict[str, int]
    holders: dict[str, list[str]]
    common: frozenset[str]
    instances: dict[str, int]
    n_classifiers: int
    shared_rows: dict[str, Int64[np.ndarray, "s"]]
    shared_index: dict[str, Int64[np.ndarray, "s"]]
    n_shared: int
    classifiers: dict[str, tuple[str, ...]]
    sites_with_truth: frozenset[str]

    def draws(self, gains: Mapping[str, float] | None = None) -> int:
        """Return the draws of theta that an instance's class counts for by default; 0 where classifiers vote.

        `gains` are those of the clusterings, by name; None: not known.
        """
        clusterings = sorted(name for name in self.n_clusters if not is_confusion(name))
        if len(clusterings) == len(self.n_clusters):
            return 0
        return draws_of([(gains or {}).get(name, 0.0) for name in clusterings])

    def common_of(self, site: str) -> tuple[str, ...]:
        """Return the common clusterings that a site holds, by name."""
        return tuple(name for name in self.clusterings_of(site) if name in self.common)

    def own_of(self, site: str) -> tuple[str, ...]:
        """Return the clusterings that only this site holds, and whose beta never leaves it."""
        return tuple(name for name in self.clusterings_of(site) if name not in self.common)

    def clusterings_of(self, site: str) -> tuple[str, ...]:
        """Return the clusterings that a site holds, by name."""
        return tuple(name for name, sites in sorted(self.holders.items()) if site in sites)

    def distinct(self, sites: Collection[str]) -> int:
        """Count the instances that these sites hold; one that several hold counts once."""
        private = sum(self.instances[site] - len(self.shared_rows[site]) for site in sites)
        return private + len({place for site in sites for place in self.shared_index[site].tolist()})

    def restricted_to(self, sites: set[str]) -> Layout:
        """Return the layout of some of the sites.

        Shared instances stay shared, and common clusterings stay common, because the sites' setup says so. A clustering
        that no remaining site holds is left out.
        """
        holders = {name: [site for site in of if site in sites] for name, of in self.holders.items()}
        holders = {name: of for name, of in holders.items() if of}
        return replace(
            self,
            n_clusters={name: self.n_clusters[name] for name in holders},
            holders=holders,
            common=self.common & set(holders),
            instances={site: n for site, n in self.instances.items() if site in sites},
        )

    def setup(self, site: str) -> Setup:
        """Return the part of the layout that a site needs."""
        names = self.clusterings_of(site)
        return Setup(
            n_classes=self.k,
            grid_bits=self.bits,
            clusterings=names,
            n_clusters=np.array([self.n_clusters[name] for name in names], np.int64),
            own=np.array([place for place, name in enumerate(names) if name not in self.common], np.int64),
            shared=self.shared_rows[site],
        )


def strangers(holdings: Mapping[str, Holdings], distribution: str, classes: int) -> dict[str, str]:
    """Return the sites whose holdings are unlike those of most, each with the reason; the run goes on without them.

    Otherwise a mistake or lie of one site would end the run, or make tables too large for all. With two sites, nobody
    can tell whose holdings are wrong.

    Examples
    --------
    >>> def held(n_classes):
    ...     return Holdings(9, n_classes, ("svm",), (), np.zeros(0, int), np.zeros(0, np.uint64), False)
    >>> strangers({"a": held(3), "b": held(3), "c": held(4)}, "row", 0)
    {'c': 'left out: it has labels of 4 classes, the others of 3 at most: if 4 is right, set bc3e.classes=4'}
    """
    reasons: dict[str, str] = {}
    if not classes:
        sizes = {site: held.n_classes for site, held in holdings.items() if held.classifiers}
        usual = _largest_usual(sizes.values(), twice=True)
        reasons |= {
            site: f"left out: it has labels of {size} classes, the others of {usual} at most: if {size} is right, set"
            f" bc3e.classes={size}"
            for site, size in sizes.items()
            if size > usual
        }
    for name in sorted({name for held in holdings.values() for name in held.clusterings}):
        sizes = {
            site: int(held.n_clusters[held.clusterings.index(name)])
            for site, held in holdings.items()
            if name in held.clusterings
        }
        usual = _largest_usual(sizes.values())
        reasons |= {
            site: f"left out: {name} has {size} clusters there, and up to {usual} at most sites"
            for site, size in sizes.items()
            if size > usual
        }
    if distribution == "column":
        sets = {site: np.sort(held.keys).tobytes() for site, held in holdings.items()}
        common, most = Counter(sets.values()).most_common(1)[0]
        others = [site for site, keys in sets.items() if keys != common] if 2 * most > len(holdings) else []
        for site in others:
            reasons[site] = "left out: its instances are not those of most sites, as bc3e.distribution=arbitrary allows"
    return reasons


def _largest_usual(sizes: Collection[int], *, twice: bool = False) -> int:
    """Return the largest size that is not far beyond the usual one; `twice`: that two sites reach.

    With one or two sites it is the larger.
    """
    if len(sizes) < 3:
        return max(sizes, default=0)
    limit = max(_MANY, _FAR * statistics.median_low(sizes))
    return sorted(size for size in sizes if size <= limit)[-2 if twice else -1]


def agree_layout(
    holdings: Mapping[str, Holdings], distribution: str, classes: int, *, confusion: bool = False
) -> Layout:
    """Choose common sizes, and find the instances and clusterings that several sites hold.

    Parameters
    ----------
    holdings : Mapping[str, Holdings]
        Holdings of each site.
    distribution : str
        ``row``, ``column`` or ``arbitrary``; checked against the holdings as far as possible.
    classes : int
        Number of classes; 0 for the largest number in the classifiers' labels.
    confusion : bool
        Whether each classifier has a confusion matrix.

    Raises
    ------
    FusionError
        If the holdings do not fit together; the message names the sites.

    Examples
    --------
    Both sites hold instance 7; only site a holds clustering k:

    >>> a = Holdings(2, 3, ("svm",), ("k",), np.array([4]), np.array([5, 7], np.uint64), True)
    >>> b = Holdings(1, 2, ("tree",), (), np.zeros(0, int), np.array([7], np.uint64), False)
    >>> layout = agree_layout({"a": a, "b": b}, "arbitrary", classes=0)
    >>> layout.k, layout.n_shared, layout.shared_rows["a"], layout.own_of("a")
    (3, 1, array([1]), ('k',))
    """
    k = _classes(holdings, classes)
    n_clusters: dict[str, int] = {}
    holders: dict[str, list[str]] = {}
    for site, held in holdings.items():
        for name, size in zip(held.clusterings, held.n_clusters.tolist(), strict=True):
            n_clusters[name] = max(n_clusters.get(name, 1), size)
            holders.setdefault(name, []).append(site)
    for name, size in n_clusters.items():
        if k * size > LARGEST_TABLE:
            raise FusionError(
                f"clustering {name} has {size} clusters at {', '.join(holders[name])}; with {k} classes, its table"
                f" would have more than {LARGEST_TABLE} entries"
            )
    classifiers = Counter(name for held in holdings.values() for name in held.classifiers)
    rows, index, n_shared, total = _shared_instances(holdings, distribution)
    if total == 0:
        raise FusionError("no site holds an instance")
    if distribution == "column":
        _check_columns(holdings, total, {**classifiers, **{name: len(sites) for name, sites in holders.items()}})
    if confusion and len(classifiers) * k * k > LARGEST_TABLE:
        raise FusionError(
            f"with {k} classes, the confusion matrices of {len(classifiers)} classifiers would have more than"
            f" {LARGEST_TABLE} entries: number the classes 0, 1, 2, ..., or set bc3e.reliability=none"
        )
    if confusion:
        n_clusters |= dict.fromkeys(map(confusion_of, classifiers), k)
        holders |= {
            confusion_of(name): [site for site, held in holdings.items() if name in held.classifiers]
            for name in classifiers
        }
    common = frozenset(n for n, sites in holders.items() if distribution == "row" or len(sites) > 1)
    return Layout(
        k=k,
        bits=_bits(total),
        n_clusters=n_clusters,
        holders=holders,
        common=common,
        instances={site: held.instances for site, held in holdings.items()},
        n_classifiers=len(classifiers),
        shared_rows=rows,
        shared_index=index,
        n_shared=n_shared,
        classifiers={site: held.classifiers for site, held in holdings.items()},
        sites_with_truth=frozenset(site for site, held in holdings.items() if held.has_truth),
    )


def _bits(total: int) -> int:
    try:
        return choose_bits(total, LARGEST_SUMMAND)
    except ValueError as error:
        raise FusionError(f"the sites have {total} instances in all: {error}") from error


def _classes(holdings: Mapping[str, Holdings], classes: int) -> int:
    if classes:
        return classes
    if not any(held.classifiers for held in holdings.values()):
        raise FusionError("no site holds a classifier: set the number of classes (bc3e.classes)")
    return max(2, *(held.n_classes for held in holdings.values()))


def _shared_instances(
    holdings: Mapping[str, Holdings], distribution: str
) -> tuple[dict[str, Int64[np.ndarray, "s"]], dict[str, Int64[np.ndarray, "s"]], int, int]:
    """Return rows and places of shared instances by site, their number, and the number of all instances."""
    if distribution == "row":
        no_instances = np.zeros(0, np.int64)
        total = sum(held.instances for held in holdings.values())
        return dict.fromkeys(holdings, no_instances), dict.fromkeys(holdings, no_instances), 0, total
    keys, counts = np.unique(np.concatenate([held.keys for held in holdings.values()]), return_counts=True)
    shared = keys[counts > 1]
    rows = {site: np.flatnonzero(np.isin(held.keys, shared)) for site, held in holdings.items()}
    index = {site: np.searchsorted(shared, held.keys[rows[site]]) for site, held in holdings.items()}
    return rows, index, len(shared), len(keys)


def _check_columns(holdings: Mapping[str, Holdings], total: int, holders: Mapping[str, int]) -> None:
    """Refuse a column distribution in which a site lacks an instance, or two sites hold the same model."""
    for site, held in holdings.items():
        if held.instances != total:
            raise FusionError(
                f"column distribution: site {site} holds {held.instances} of {total} instances; every site must hold "
                'all of them, or set bc3e.distribution="arbitrary"'
            )
    twice = sorted(name for name, sites in holders.items() if sites > 1)
    if twice:
        raise FusionError(f"column distribution: several sites hold {', '.join(twice)}; every model has one holder")
