"""A site's experts: its rows, split and in the common units, and caches of what is computed from them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from typing import NamedTuple

import numpy as np
from jaxtyping import Float64, Int64

from clients.digest import digest_of
from clients.site import Site
from common.extras import MissingLibraryError
from numerics.gp.coarse_answers import FEWEST_ROWS
from numerics.gp.dirichlet import LatentUnits, latent_outputs, latent_units
from numerics.gp.expert import Expert, LeftOut
from numerics.gp.kernel_registry import kernel_of
from numerics.gp.kernels import Kernel
from numerics.gp.likelihood import Evaluation, evaluate
from numerics.gp.measurements import LIMIT, Measurements
from numerics.gp.moments import Units, moments_of, units_of
from numerics.gp.nearest_rows import NearestRows, neighborhoods
from numerics.gp.own_noise import with_own_noise
from numerics.gp.rare_values import without_rare_inputs
from numerics.shared.classes import places_of
from numerics.shared.folds import Persons, of_rows, rows_that_hold
from protocols.classes import MOST_CLASSES
from protocols.gp.payloads import LARGEST_LOGIT, ExpertAsk, Survey
from protocols.gp.settings import Consents
from protocols.wire.faults import Fault, SiteFault

_DIGEST_WORDS = 8


@dataclass(frozen=True)
class Part:
    """Rows of one expert. Two parts of the same content are equal, so that caches find results by content.

    Attributes
    ----------
    digest : tuple of int
        Digest of the content.
    x, y : ndarray
        ``(n, d)`` inputs and ``(n,)`` outputs; where these are classes, ``(n, k)`` outputs of all classes.
    person : ndarray or None
        ``(n,)`` persons of the rows, which are left out as a whole; None: every row is of another person.
    noise : ndarray or None
        Known variances of the noise of outputs of classes, in the shape of `y`; None: unknown.

    Examples
    --------
    >>> Part.of(np.zeros((2, 1)), np.ones(2)) == Part.of(np.zeros((2, 1)), np.ones(2))
    True
    """

    digest: tuple[int, ...]
    x: Float64[np.ndarray, "n d"] = field(compare=False, repr=False)
    y: Float64[np.ndarray, "*columns"] = field(compare=False, repr=False)
    person: Persons = field(default=None, compare=False, repr=False)
    noise: Float64[np.ndarray, "*columns"] | None = field(default=None, compare=False, repr=False)

    @classmethod
    def of(
        cls,
        x: Float64[np.ndarray, "n d"],
        y: Float64[np.ndarray, "*columns"],
        person: Persons = None,
        noise: Float64[np.ndarray, "*columns"] | None = None,
    ) -> Part:
        """Return the rows with their digest. The noise follows from the outputs."""
        return cls(tuple(digest_of((x, y) if person is None else (x, y, person))), x, y, person, noise)

    def at(self, rows: Int64[np.ndarray, "m"]) -> Part:
        """Return some of the rows."""
        noise = None if self.noise is None else self.noise[rows]
        return Part.of(self.x[rows], self.y[rows], of_rows(self.person, rows), noise)

    def least_noise(self, theta: tuple[float, ...]) -> float:
        """Return the variance of the noise of these outputs: where it differs between rows, the least."""
        return float(np.exp(2 * theta[-1])) + (0.0 if self.noise is None else float(self.noise.min()))

    @cached_property
    def outputs(self) -> tuple[Part, ...]:
        """The rows with each of their outputs: one, or one for each class."""
        if self.noise is None:
            return (self,)
        columns = zip(*(np.ascontiguousarray(each.T) for each in (self.y, self.noise)), strict=True)
        return tuple(Part((*self.digest, c), self.x, y, self.person, noise) for c, (y, noise) in enumerate(columns))


def rows_of(site: Site, ask: Survey | ExpertAsk) -> Measurements:
    """Return the site's rows without those that have a wrong cell and, with `robust`, those with outlying outputs.

    At a real site, an input value that few rows have is replaced by that of others (`numerics.gp.rare_values`), and an
    output beyond `LIMIT` deviations, if few rows have one, by `LIMIT` deviations.

    Sums over the rows with and without these reveal the difference. So a site leaves out at least ``min-rows`` rows, if
    any, and at least as many more for outliers. It keeps all if too few would remain for an expert. A real site that
    splits its rows keeps outliers: an expert might lose a single one.
    """
    rows = usual_rows(site)
    if ask.robust and not (site.has_private_rows and _splits(rows, ask)):
        rows = _without_outliers(rows, LIMIT, min_rows(site))
    return _with_common_outputs(rows, fewest_told(site)) if site.has_private_rows else rows


def usual_rows(site: Site) -> Measurements:
    """Return the site's rows without those that have a wrong cell; at a real site without rare inputs."""
    rows: Measurements = site.shard
    if site.has_private_rows:
        rows = _without_rare_inputs(rows, fewest_told(site))
    return _without_outliers(rows, np.inf, min_rows(site))


def fewest_told(site: Site) -> int:
    """Return the number of rows below which a value counts as rare."""
    return rows_that_hold(site.policy.at_least(int(FEWEST_ROWS)), site.shard.person)


def min_rows(site: Site) -> int:
    """Return the fewest rows of an expert of the site."""
    return site.consents.number("min-rows", Consents.min_rows)


@lru_cache(maxsize=4)
def _without_outliers(rows: Measurements, limit: float, least: int) -> Measurements:
    if not rows.cells_beyond(limit).any():
        return rows
    fewer = rows.without_outliers(limit, least, draw_of(rows))
    return fewer if fewer.n >= least else rows


def draw_of(rows: Measurements) -> np.random.Generator:
    """Return a source of draws that is the same for the same rows."""
    return np.random.default_rng(digest_of((rows.x, rows.y)))


@lru_cache(maxsize=4)
def _with_common_outputs(rows: Measurements, fewest: int) -> Measurements:
    return rows.with_common_outputs(fewest)


@lru_cache(maxsize=4)
def _without_rare_inputs(rows: Measurements, fewest: int) -> Measurements:
    return replace(rows, x=without_rare_inputs(rows.x, fewest))


def nearest_of(rows: Measurements, ask: Survey | ExpertAsk) -> int:
    """Return the number of nearest rows by which the site's single expert predicts; 0 if it has other experts."""
    return ask.local if rows.part is None and rows.n > ask.max_rows else 0


def _splits(rows: Measurements, ask: Survey | ExpertAsk) -> bool:
    return rows.part is None and rows.n > ask.max_rows and not ask.local


def parts_of(rows: Measurements, site: Site, ask: Survey | ExpertAsk) -> Int64[np.ndarray, "n"]:
    """Return the ``(n,)`` numbers of the experts that these rows of the site belong to.

    Raises
    ------
    SiteFault
        If an expert would have fewer rows than the site demands.
    """
    if nearest_of(rows, ask):
        part = np.zeros(rows.n, np.int64)
    else:
        part = rows.part if rows.part is not None else _split(Part.of(rows.x, rows.y, rows.person), ask.max_rows)
    if np.bincount(part).min() < min_rows(site):
        raise SiteFault(Fault.FEW_ROWS_FOR_EXPERT)
    return part


@lru_cache(maxsize=8)
def _split(rows: Part, max_rows: int) -> Int64[np.ndarray, "n"]:
    """Split the rows into experts, in the same way in every process: the fusion center knows experts by number."""
    if len(rows.y) <= max_rows:
        return np.zeros(len(rows.y), np.int64)
    # This imports scikit-learn, which a site with one expert never needs.
    from numerics.gp.split import split

    return split(rows.x, max_rows, np.random.default_rng(rows.digest))


def experts_of(site: Site, ask: ExpertAsk) -> list[Part]:
    """Return the site's experts, in the common units.

    Raises
    ------
    SiteFault
        If the units do not fit the site's inputs, or if the experts' numbers of rows have changed.
    """
    rows = rows_of(site, ask)
    if len(ask.mean) != len(rows.features) or ask.scale.min() <= 0 or ask.y_scale <= 0:
        raise SiteFault(Fault.MALFORMED_ASK, "the units do not fit the site's inputs")
    part = parts_of(rows, site, ask)
    if not np.array_equal(np.bincount(part), ask.counts):
        raise SiteFault(Fault.DATA_CHANGED, "the experts' numbers of rows have changed")
    units = (tuple(ask.mean.tolist()), tuple(ask.scale.tolist()), ask.y_mean, ask.y_scale)
    latent = _latent_units(rows, ask)
    return list(_in_units(Part.of(rows.x, rows.y, rows.person), part.tobytes(), units, latent))


def _latent_units(rows: Measurements, ask: ExpertAsk) -> tuple[tuple[int, ...], tuple[float, ...]] | None:
    """Return the places of the site's classes among all, and the origins of their outputs; None for amounts."""
    sound = bool(rows.classes) == bool(ask.classes) and set(rows.classes) <= set(ask.classes)
    sound &= len(set(ask.classes)) == len(ask.classes) == len(ask.class_means) <= MOST_CLASSES
    if ask.classes:
        sound &= max(np.abs(ask.class_means).max(), ask.y_scale, 1 / ask.y_scale) <= LARGEST_LOGIT
        sound &= ask.y_mean == 0 and not ask.own_noise
    if not sound:
        raise SiteFault(Fault.MALFORMED_ASK, "the classes, or their units, do not fit the site's outputs")
    return (
        (tuple(places_of(rows.classes, ask.classes).tolist()), tuple(ask.class_means.tolist())) if ask.classes else None
    )


class OwnUnits(NamedTuple):
    """A site's rows in units of its own.

    Attributes
    ----------
    units : Units
        The units.
    latent : LatentUnits or None
        Units of the outputs if these are classes; None for amounts.
    part : Part
        All rows, as one expert.
    """

    units: Units
    latent: LatentUnits | None
    part: Part


def in_own_units(rows: Measurements) -> OwnUnits:
    """Return the rows as one expert, in the units that they themselves have."""
    if not rows.classes:
        units = units_of(moments_of(rows.x, rows.y))
        return OwnUnits(units, None, Part.of(units.inputs(rows.x), units.outputs(rows.y), rows.person))
    units = units_of(moments_of(rows.x, np.zeros(rows.n)))
    latent = latent_units(np.bincount(rows.y.astype(np.int64), minlength=len(rows.classes)))
    outputs, noise = latent_outputs(rows.y.astype(np.int64), latent)
    return OwnUnits(units, latent, Part.of(units.inputs(rows.x), outputs, rows.person, noise))


@lru_cache(maxsize=16)  # a worker of a simulation answers for many sites
def _in_units(
    rows: Part,
    part: bytes,
    units: tuple[tuple[float, ...], tuple[float, ...], float, float],
    latent: tuple[tuple[int, ...], tuple[float, ...]] | None,
) -> list[Part]:
    """Split the rows and convert them to common units. The same ask gets the same objects, so caches hold them once."""
    mean, scale, y_mean, y_scale = units
    common = Units(np.array(mean), np.array(scale), y_mean, y_scale)
    x, expert = common.inputs(rows.x), np.frombuffer(part, np.int64)
    if latent is None:
        whole = Part((), x, common.outputs(rows.y), rows.person)
    else:
        outputs, noise = latent_outputs(
            np.array(latent[0])[rows.y.astype(np.int64)], LatentUnits(np.array(latent[1]), y_scale)
        )
        whole = Part((), x, outputs, rows.person, noise)
    return [whole.at(np.flatnonzero(expert == i)) for i in range(int(expert.max()) + 1)]


@lru_cache(maxsize=16)
def kernel_for(text: str, d: int) -> Kernel:
    """Return the kernel that an ask names.

    Raises
    ------
    SiteFault
        If there is no such kernel.
    MissingLibraryError
        If this installation lacks a library that the kernel needs.

    Examples
    --------
    >>> kernel_for("se", 2).names
    ('log ell_1', 'log ell_2', 'log s')
    """
    try:
        return kernel_of(text, d)
    except MissingLibraryError:
        raise
    except ValueError as error:
        raise SiteFault(Fault.MALFORMED_ASK, str(error)) from error


@lru_cache(maxsize=4)
def learning_parts(rows: Part) -> list[Part]:
    """Return the neighborhoods that represent an expert of nearest rows in the search for hyperparameters."""
    places = neighborhoods(rows.x, np.random.default_rng(rows.digest))
    return [rows.at(own) for own in places]


@lru_cache(maxsize=512)  # p^2 numbers each; the cells of a table need the same ones
def likelihood_of(rows: Part, kernel: str, theta: tuple[float, ...]) -> Evaluation:
    """Return the log likelihood of one expert's outputs, with its derivatives; of classes the sum over them."""
    return evaluate(kernel_for(kernel, rows.x.shape[1]), np.array(theta), rows.x, rows.y, rows.noise)


@lru_cache(maxsize=8)  # up to 64 MB each
def expert_of(rows: Part, kernel: str, theta: tuple[float, ...]) -> Expert:
    """Return the Gaussian process of one expert's rows, factorized; of classes, of one of `Part.outputs`.

    Raises
    ------
    SiteFault
        If the rows cannot be factorized with these hyperparameters.
    """
    try:
        return Expert(kernel_for(kernel, rows.x.shape[1]), np.array(theta), rows.x, rows.y, rows.noise)
    except ValueError as error:
        raise SiteFault(Fault.MALFORMED_ASK, str(error)) from error


@lru_cache(maxsize=2)  # as large as the rows
def nearest_rows_of(rows: Part, kernel: str, theta: tuple[float, ...], m: int) -> NearestRows:
    """Return the expert that predicts a point from its m nearest rows."""
    return NearestRows(kernel_for(kernel, rows.x.shape[1]), np.array(theta), rows.x, rows.y, m, rows.noise)


@lru_cache(maxsize=64)  # a few numbers each
def own_noise_of(parts: tuple[Part, ...], kernel: str, theta: tuple[float, ...]) -> tuple[float, ...]:
    """Return the hyperparameters with the noise that fits these rows best.

    Raises
    ------
    SiteFault
        If the rows cannot be factorized with these hyperparameters.
    """
    rows = [(part.x, part.y) for part in parts]
    try:
        return tuple(with_own_noise(kernel_for(kernel, parts[0].x.shape[1]), np.array(theta), rows).tolist())
    except np.linalg.LinAlgError as error:
        raise SiteFault(Fault.MALFORMED_ASK, str(error)) from error


def rows_left_out(rows: Part, kernel: str, theta: tuple[float, ...], local: int) -> LeftOut:
    """Return leave-one-out predictions of an expert's rows; of a sample of them if nearest rows predict (`local`)."""
    if local:
        # The same sample for all outputs of a row: their digests begin alike, with the content's.
        rng = np.random.default_rng(rows.digest[:_DIGEST_WORDS])
        return nearest_rows_of(rows, kernel, theta, local).left_out(rng, rows.person)
    return expert_of(rows, kernel, theta).left_out(rows.person)


def draw_rows(parts: Sequence[Part], n_rows: int, rng: np.random.Generator) -> list[Int64[np.ndarray, "_"]]:
    """Draw the rows of each expert that the site gives to the communication expert; return their places, sorted.

    Examples
    --------
    >>> parts = [Part.of(np.zeros((n, 1)), np.zeros(n)) for n in (4, 2)]
    >>> sum(len(places) for places in draw_rows(parts, 3, np.random.default_rng(0)))
    3
    """
    ends = np.cumsum([len(part.y) for part in parts])
    chosen = np.sort(rng.permutation(ends[-1])[:n_rows])
    expert = np.searchsorted(ends, chosen, side="right")
    starts = ends - [len(part.y) for part in parts]
    return [chosen[expert == i] - starts[i] for i in range(len(parts))]
