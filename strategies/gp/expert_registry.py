"""The experts of all sites: whose they are, where their rows lie, and the units that everybody calculates in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from jaxtyping import Bool, Float64, Int64, Shaped

from numerics.gp.kernels import Kernel
from numerics.gp.moments import ExpertMoments, Units, in_units, join, units_of
from protocols.gp.payloads import Moments
from strategies.column_names import check_enough, columns_of_most
from strategies.errors import FusionError


@dataclass(frozen=True, eq=False)
class ExpertRegistry:
    """Sites and their experts, numbered site by site.

    Attributes
    ----------
    counts : dict[str, ndarray]
        Rows of each of a site's experts, by site in an order that does not depend on the sites' names.
    features : tuple of str
        Names of the d inputs.
    units : Units
        Pooled mean and standard deviation of inputs and outputs.
    moments : ExpertMoments
        Of all M experts, in these units.
    excluded : dict[str, str]
        By site, why its rows are not among them.
    consents : dict[str, tuple of str]
        By site, what it consents to (`protocols.gp.payloads.CONSENTS`); a site that is not named has not said.
    """

    counts: dict[str, Int64[np.ndarray, "m"]]
    features: tuple[str, ...]
    units: Units
    moments: ExpertMoments
    excluded: dict[str, str]
    consents: dict[str, tuple[str, ...]]

    @classmethod
    def of(cls, answers: Mapping[str, Moments]) -> ExpertRegistry:
        """Register the experts of the sites with the inputs that most sites have.

        Raises
        ------
        FusionError
            If no site has answered, or two sets of inputs are equally common.
        """
        if not answers:
            raise FusionError("no site has answered with an expert")
        features, excluded = columns_of_most({site: answer.features for site, answer in answers.items()}, "inputs")
        members = {site: answer for site, answer in answers.items() if answer.features == features}
        # In an order of their content, so that a sum over sites does not depend on what they are called.
        members = dict(sorted(members.items(), key=lambda each: _content(each[1])))
        together = join([moments_of(answer) for answer in members.values()])
        units = units_of(together)
        counts = {site: answer.counts for site, answer in members.items()}
        consents = {site: answer.consents for site, answer in members.items()}
        return cls(counts, features, units, in_units(together, units), excluded, consents)

    def check_enough(self, min_sites: int) -> None:
        """Refuse to go on with fewer than `min_sites` sites."""
        check_enough(len(self.counts), min_sites, self.excluded, "predict")

    # -- sites and experts --------------------------------------------------------------------------------------------

    @property
    def M(self) -> int:
        """Number of experts."""
        return len(self.moments.counts)

    @property
    def varies(self) -> Bool[np.ndarray, "d"]:
        """Whether an input is not the same in every row."""
        return self.moments.varies

    @property
    def n_rows(self) -> int:
        """Rows of all experts."""
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

    def willing(self, key: str) -> list[str]:
        """Return the sites that consent to what `key` allows, or have not said."""
        return [site for site in self.counts if key in self.consents.get(site, (key,))]

    def rows_of(self, site: str) -> int:
        """Return the number of rows of a site's experts."""
        return int(self.counts[site].sum())

    def agreement(self, site: str, max_rows: int) -> dict[str, Any]:
        """Return the fields that every ask to a site begins with (`protocols.gp.payloads.Agreed`)."""
        units = self.units
        return {
            "max_rows": max_rows,
            "counts": self.counts[site],
            "mean": units.mean,
            "scale": units.scale,
            "y_mean": units.y_mean,
            "y_scale": units.y_scale,
        }

    # -- saved for later ----------------------------------------------------------------------------------------------

    def arrays(self) -> dict[str, Shaped[np.ndarray, "..."]]:
        """Return all of it for `arrays.npz`, but what sites consent to."""
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
        }

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, Shaped[np.ndarray, "..."]]) -> ExpertRegistry:
        """Read what `arrays` returned."""
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
        return cls(counts, tuple(map(str, arrays["features"])), units, moments, {}, {})


def _content(answer: Moments) -> tuple[bytes, ...]:
    """Return the key that orders sites, whatever they are called."""
    parts = (answer.means, answer.y_means, answer.covariances, answer.y_variances, answer.counts)
    return tuple(part.tobytes() for part in parts)


def moments_of(answer: Moments) -> ExpertMoments:
    """Return a site's moments as the numerics have them."""
    return ExpertMoments(answer.counts, answer.means, answer.covariances, answer.y_means, answer.y_variances)


def own_choice(answer: Moments, kernel: Kernel, units: Units) -> Float64[np.ndarray, "p"] | None:
    """Return the hyperparameters that a site would choose alone, in the common units; None if it sent none.

    They are logarithms, which other units only shift: the information about them is the same in all units.
    """
    if len(answer.theta) != len(kernel.names) + 1:
        return None
    moments = moments_of(answer)
    own = units_of(moments)
    # Of an input that is the same in all its rows a site knows no length: it is the usual one, in whatever unit.
    inputs = np.where(moments.varies, own.scale / units.scale, 1.0)
    output = own.y_scale / units.y_scale if moments.output_varies else 1.0
    params = kernel.rescaled(answer.theta[:-1], inputs, output)
    return None if params is None else np.append(params, answer.theta[-1] + np.log(output))
