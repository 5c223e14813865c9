"""State of a fit of bc3e at a site, in the site's memory."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Int64, Shaped

from clients.memory import Memory
from clients.site import Site
from numerics.bc3e.anderson import ParameterBlock
from numerics.bc3e.ensemble import Ensemble
from numerics.bc3e.reliability import first_table, table_names
from protocols.bc3e.payloads import EStep
from protocols.wire.faults import Fault, SiteFault


def held_tables(shard: Ensemble, *, confusion: bool) -> list[str]:
    """Return the names of the tables of a site's models, in their order."""
    return table_names(shard.classifiers, shard.clusterings, confusion=confusion)


@dataclass
class FitState:
    """State of a fit in one lane, read from the site's memory.

    A fit belongs to a lane, one restart of a repetition. The setup belongs to the repetition, so it is in the memory of
    the repetition.

    Attributes
    ----------
    site : Site
        The site, in the lane of the fit.
    own : list of str
        Tables of models that this site alone holds.
    shared : ndarray
        ``(s,)`` places of the shared instances, in the order of the setup.
    n_clusters : dict of int
        Number of columns, by table.
    set_up : bool
        Whether the memory holds the setup.
    """

    site: Site
    own: list[str]
    shared: Int64[np.ndarray, "s"]
    n_clusters: dict[str, int]
    set_up: bool = True

    @classmethod
    def of(cls, site: Site) -> FitState:
        """Return the state of the site's lane."""
        setup = site.in_lane(str(site.repetition)).memory
        if "own" not in setup:
            return cls(site, [], np.zeros(0, np.int64), {}, set_up=False)
        names = held_tables(site.shard, confusion=len(setup["own"]) > len(site.shard.clusterings))
        own = [name for name, is_own in zip(names, setup["own"], strict=True) if is_own]
        return cls(site, own, setup["shared"], dict(zip(names, setup["n_clusters"].tolist(), strict=True)))

    @property
    def memory(self) -> Memory:
        """Return the memory of the lane."""
        return self.site.memory

    def private(self) -> Shaped[np.ndarray, "n"]:
        """Return the mask of the instances that this site alone holds."""
        mask = np.ones(self.site.shard.n, bool)
        mask[self.shared] = False
        return mask

    def private_part(self) -> Ensemble:
        """Return the labels of the instances that this site alone holds."""
        shard: Ensemble = self.site.shard
        return shard.rows(self.private()) if self.shared.size else shard

    def shared_part(self) -> Ensemble:
        """Return the labels of the instances that other sites hold too, in the order of the setup."""
        shard: Ensemble = self.site.shard
        return shard.rows(self.shared)

    def load_block(self, name: str, ask: EStep) -> ParameterBlock:
        """Return the parameters of an own clustering: at the first step their start, later those in the memory."""
        if ask.step == 0:
            return ParameterBlock(first_table(name, len(ask.alpha), self.n_clusters[name], ask.start))
        return self.stored_block(name)

    def stored_block(self, name: str) -> ParameterBlock:
        """Return the parameters of an own table in the memory."""
        points, images = self.recall(f"own/{name}/points"), self.recall(f"own/{name}/images")
        return ParameterBlock(self.recall(f"own/{name}/x"), points=list(points), images=list(images))

    def store_block(self, name: str, block: ParameterBlock) -> None:
        """Keep the parameters of an own table in the memory."""
        empty = np.zeros((0, *block.x.shape))
        self.memory[f"own/{name}/x"] = block.x
        self.memory[f"own/{name}/points"] = np.stack(block.points) if block.points else empty
        self.memory[f"own/{name}/images"] = np.stack(block.images) if block.images else empty

    def recall(self, name: str) -> np.ndarray:
        """Return an array of the memory; raise a `SiteFault` if it is lost: the site cannot go on without it."""
        if name not in self.memory:
            raise SiteFault(Fault.STALE_MEMORY, f"{name} is not in the memory of lane {self.site.lane}")
        return self.memory[name]
