"""Registry of the experts of all sites: their sites, their moments, and the common units."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from jaxtyping import Bool, Float64, Int64, Shaped

from numerics.gp.dirichlet import LatentUnits, latent_units, least_noise
from numerics.gp.kernels import Kernel
from numerics.gp.moments import ExpertMoments, Units, in_units, join, remote, remote_inputs, units_of
from numerics.gp.nearest_rows import learning_rows
from numerics.shared.classes import places_of
from protocols.classes import ClassListError
from protocols.gp.payloads import Moments
from strategies.class_lists import classes_of_most
from strategies.column_names import check_enough, columns_of_most
from strategies.errors import FusionError


@dataclass(frozen=True, eq=False)
class ExpertRegistry:
    """Sites and their experts, numbered site by site.

    Attributes
    ----------
    counts : dict[str, ndarray]
        Numbers of rows of a site's experts, by site; the order does not depend on the sites' names.
    features : tuple of str
        Names of the d inputs.
    units : Units
        Common units: pooled mean and standard deviation of inputs and outputs.
    moments : ExpertMoments
        Moments of all M experts, in the common units.
    excluded : dict[str, str]
        Sites that were left out, and why.
    consents : dict[str, tuple of str]
        Consents of each site (`protocols.gp.payloads.CONSENTS`); sites whose consents are unknown are missing.
    left_out : dict[str, int]
        Number of rows that a site leaves out for outliers, by site, if any.
    robust : bool
        Whether sites leave out such rows (``gp.robust``).
    local : int
        Number of nearest rows that predict a point at a large site; 0: it has several experts (``gp.local``).
    own_noise : bool
        Whether each site predicts with a noise of its own (``gp.noise``).
    nearest : tuple of str
        Sites whose only expert predicts from nearest rows.
    classes : tuple of str
        Classes of all sites, in order; none: the outputs are amounts.
    class_counts : ndarray
        ``(M, k)`` number of each expert's rows of each class.

    Examples
    --------
    Site a has two experts with inputs around 0 and 2; site b has one:

    >>> def answer(*centers):
    ...     m = len(centers)
    ...     return Moments(
    ...         ("x",), np.full(m, 10), np.array(centers)[:, np.newaxis], np.ones((m, 1, 1)), np.zeros(m), np.ones(m),
    ...         np.zeros(0), np.zeros(0), np.zeros(0), ("allow-rows",),
    ...     )
    >>> registry = ExpertRegistry.of({"b": answer(4.0), "a": answer(0.0, 2.0)})
    >>> registry.M, registry.n_rows, registry.site_of
    (3, 30, ['a', 'a', 'b'])
    >>> registry.units.mean, registry.willing("allow-rows")
    (array([2.]), ['a', 'b'])
    """

    counts: dict[str, Int64[np.ndarray, "m"]]
    features: tuple[str, ...]
    units: Units
    moments: ExpertMoments
    excluded: dict[str, str]
    consents: dict[str, tuple[str, ...]]
    left_out: dict[str, int]
    robust: bool = False
    local: int = 0
    nearest: tuple[str, ...] = ()
    own_noise: bool = False
    classes: tuple[str, ...] = ()
    class_counts: Int64[np.ndarray, "M k"] = field(default_factory=lambda: np.zeros((0, 0), np.int64))

    @classmethod
    def of(
        cls,
        answers: Mapping[str, Moments],
        *,
        robust: bool = False,
        local: int = 0,
        own_noise: bool = False,
        target: str = "",
    ) -> ExpertRegistry:
        """Register the experts of the sites that have the same inputs, and the same kind of output, as most sites.

        The unit of the outputs is that of the sites that are not `remote`.

        Raises
        ------
        FusionError
            If no site answered, if two sets of inputs are equally common, if `target` has classes at as many sites as
            amounts, or if the classes do not fit together.
        """
        if not answers:
            raise FusionError("no site has answered with an expert")
        features, excluded = columns_of_most({site: answer.features for site, answer in answers.items()}, "inputs")
        members = {site: answer for site, answer in answers.items() if answer.features == features}
        # Sites are ordered by content, so that a sum over sites does not depend on their names.
        members = dict(sorted(members.items(), key=lambda each: _content(each[1])))
        classes, others = _classes_of(members, target)
        excluded |= others
        members = {site: answer for site, answer in members.items() if site not in others}
        moments = join([moments_of(answer) for answer in members.values()])
        counts = {site: answer.counts for site, answer in members.items()}
        n_experts = [len(each) for each in counts.values()]
        site = np.repeat(np.arange(len(n_experts)), n_experts)
        far = remote_inputs(moments, site)
        units = units_of(moments, ~remote(moments, site)[site], ~far[site])
        class_counts = _class_counts(members, classes)
        if classes:
            units = replace(units, y_scale=latent_units(class_counts.sum(axis=0)).scale)
        return cls(
            counts,
            features,
            units,
            in_units(moments, units),
            excluded,
            {site: answer.consents for site, answer in members.items()},
            {site: answer.left_out for site, answer in members.items() if answer.left_out},
            robust,
            local,
            tuple(site for site, answer in members.items() if answer.nearest),
            own_noise,
            classes,
            class_counts,
        )

    def check_enough(self, min_sites: int) -> None:
        """Refuse to go on with fewer than `min_sites` sites."""
        check_enough(len(self.counts), min_sites, self.excluded, "predict")

    # -- sites and experts --------------------------------------------------------------------------------------------

    @property
    def M(self) -> int:
        """Number of experts."""
        return len(self.moments.counts)

    @cached_property
    def latent(self) -> LatentUnits | None:
        """Units of the outputs of the classes; None for amounts."""
        return latent_units(self.class_counts.sum(axis=0)) if self.classes else None

    @property
    def n_outputs(self) -> int:
        """Number of outputs that every expert predicts: one for each class."""
        return len(self.classes) or 1

    @property
    def row_noise(self) -> float:
        """Least variance of the known noise of a row, in the common units; 0 for amounts."""
        return 0.0 if self.latent is None else least_noise(self.latent)

    @property
    def varies(self) -> Bool[np.ndarray, "d"]:
        """``(d,)`` mask of the inputs that are not the same in every row."""
        return self.moments.varies

    @property
    def n_rows(self) -> int:
        """Number of rows of all experts together."""
        return int(self.moments.counts.sum())

    @cached_property
    def places(self) -> dict[str, Int64[np.ndarray, "m"]]:
        """Numbers of each site's experts."""
        ends = np.cumsum([len(counts) for counts in self.counts.values()])
        return {
            site: np.arange(end - len(counts), end)
            for (site, counts), end in zip(self.counts.items(), ends, strict=True)
        }

    @cached_property
    def site_of(self) -> list[str]:
        """Name of each expert's site."""
        return [site for site, counts in self.counts.items() for _ in counts]

    @cached_property
    def remote(self) -> list[str]:
        """Sites whose outputs are far from those of most sites (`numerics.gp.moments.remote`)."""
        mask = remote(self.moments, self._number)
        return [site for site, far in zip(self.counts, mask.tolist(), strict=True) if far]

    @property
    def remote_inputs(self) -> dict[str, list[str]]:
        """By site, its inputs that are far from those of most sites, if any; they do not count in the inputs' units."""
        sites = zip(self.counts, remote_inputs(self.moments, self._number), strict=True)
        named = {site: [name for name, far in zip(self.features, mask, strict=True) if far] for site, mask in sites}
        return {site: names for site, names in named.items() if names}

    @property
    def _number(self) -> Int64[np.ndarray, "M"]:
        """``(M,)`` number of each expert's site."""
        return np.repeat(np.arange(len(self.counts)), [len(counts) for counts in self.counts.values()])

    @property
    def learning(self) -> list[str]:
        """Sites whose outputs count in what all sites share: units, hyperparameters, and a communication expert."""
        return [site for site in self.counts if site not in self.remote]

    def willing(self, key: str) -> list[str]:
        """Return the sites that consent to what `key` allows, and those whose consents are unknown."""
        return [site for site in self.counts if key in self.consents.get(site, (key,))]

    def rows_of(self, site: str) -> int:
        """Return the number of rows of a site's experts."""
        return int(self.counts[site].sum())

    @property
    def is_nearest(self) -> Bool[np.ndarray, "M"]:
        """``(M,)`` mask of the experts that predict from nearest rows."""
        return np.isin(self.site_of, self.nearest)

    def learning_rows_of(self, site: str) -> int:
        """Return the number of rows behind a site's likelihoods."""
        rows = self.rows_of(site)
        return math.prod(learning_rows(rows)) if site in self.nearest else rows

    def agreement(self, site: str, max_rows: int) -> dict[str, Any]:
        """Return the fields that every ask to a site has (`protocols.gp.payloads.ExpertAsk`)."""
        units = self.units
        return {
            "max_rows": max_rows,
            "counts": self.counts[site],
            "mean": units.mean,
            "scale": units.scale,
            "y_mean": units.y_mean,
            "y_scale": units.y_scale,
            "robust": self.robust,
            "local": self.local,
            "own_noise": self.own_noise,
            "classes": self.classes,
            "class_means": np.zeros(0) if self.latent is None else self.latent.means,
        }

    # -- saved for later ----------------------------------------------------------------------------------------------

    def arrays(self) -> dict[str, Shaped[np.ndarray, "..."]]:
        """Return the arrays of `arrays.npz` that hold the registry, without the sites' consents."""
        return {
            "features": np.array(self.features),
            "input_mean": self.units.mean,
            "input_scale": self.units.scale,
            "output_mean": np.array(self.units.y_mean),
            "output_scale": np.array(self.units.y_scale),
            "expert_site": np.array(self.site_of),
            "expert_rows": self.moments.counts,
            "centroids": self.moments.means,
            "covariances": self.moments.covariances,
            "expert_y_mean": self.moments.y_mean,
            "expert_y_variance": self.moments.y_variance,
            "robust": np.array(self.robust),
            "local": np.array(self.local),
            "own_noise": np.array(self.own_noise),
            "expert_nearest": self.is_nearest,
            "classes": np.array(self.classes, dtype=np.str_),
            "class_counts": self.class_counts,
        }

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, Shaped[np.ndarray, "..."]]) -> ExpertRegistry:
        """Read the registry from the arrays that `arrays` returned."""
        moments = ExpertMoments(
            arrays["expert_rows"],
            arrays["centroids"],
            arrays["covariances"],
            arrays["expert_y_mean"],
            arrays["expert_y_variance"],
        )
        units = Units(
            arrays["input_mean"],
            arrays["input_scale"],
            float(arrays["output_mean"]),
            float(arrays["output_scale"]),
        )
        sites = arrays["expert_site"]
        counts = {str(site): moments.counts[sites == site] for site in dict.fromkeys(sites.tolist())}
        nearest = tuple(dict.fromkeys(sites[arrays["expert_nearest"]].tolist()))
        robust, local = bool(arrays.get("robust", False)), int(arrays["local"])
        features = tuple(map(str, arrays["features"]))
        own_noise = bool(arrays["own_noise"])
        classes = tuple(map(str, arrays.get("classes", ())))
        class_counts = arrays["class_counts"] if classes else np.zeros((len(sites), 0), np.int64)
        return cls(
            counts, features, units, moments, {}, {}, {}, robust, local, nearest, own_noise, classes, class_counts
        )


def _classes_of(answers: Mapping[str, Moments], target: str) -> tuple[tuple[str, ...], dict[str, str]]:
    """Return the classes of the sites, and the sites whose outputs do not fit those of most, with the reasons."""
    try:
        return classes_of_most({site: answer.classes for site, answer in answers.items()}, target)
    except ClassListError as error:
        raise FusionError(str(error)) from error


def _class_counts(answers: Mapping[str, Moments], classes: tuple[str, ...]) -> Int64[np.ndarray, "M k"]:
    """Return the number of each expert's rows of each class."""
    counts = [np.zeros((len(answer.counts), len(classes)), np.int64) for answer in answers.values()]
    for own, answer in zip(counts, answers.values() if classes else (), strict=bool(classes)):
        own[:, places_of(answer.classes, classes)] = answer.class_counts
    return np.concatenate(counts)


def _content(answer: Moments) -> tuple[bytes, ...]:
    """Return the key that orders sites by the content of their answers."""
    parts = (answer.means, answer.y_means, answer.covariances, answer.y_variances, answer.counts, answer.class_counts)
    return tuple(part.tobytes() for part in parts)


def moments_of(answer: Moments) -> ExpertMoments:
    """Return the moments of a site's experts, in the site's own units."""
    return ExpertMoments(answer.counts, answer.means, answer.covariances, answer.y_means, answer.y_variances)


def own_choice(answer: Moments, kernel: Kernel, units: Units) -> Float64[np.ndarray, "p"] | None:
    """Return the hyperparameters that a site would choose alone, in the common units; None if it sent none.

    Hyperparameters are logarithms, which other units only shift. So the information about them needs no conversion.
    """
    if len(answer.theta) != len(kernel.names) + 1:
        return None
    moments = moments_of(answer)
    own = units_of(moments)
    # A site cannot estimate the length of an input that is constant in its rows: it keeps the usual start unconverted.
    inputs = np.where(moments.varies, own.scale / units.scale, 1.0)
    output = own.y_scale / units.y_scale if moments.output_varies else 1.0
    if answer.classes:
        output = latent_units(answer.class_counts.sum(axis=0)).scale / units.y_scale
    params = kernel.rescaled(answer.theta[:-1], inputs, output)
    return None if params is None else np.append(params, answer.theta[-1] + np.log(output))
