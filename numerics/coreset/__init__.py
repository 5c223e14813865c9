"""The coreset of fair k-means: built in one pass, with whole weights, one group a point, its movement measured.

Sources: Schmidt, Schwiegelshohn and Sohler (2018), Definition 4, Theorem 7 and Algorithm 15; BICO (Fichtenberger et al.
2013).
"""

from numerics.coreset.features import Features
from numerics.coreset.reduction import MergedCoreset, merge_light, reduce, union
from numerics.coreset.summary import CONSTRUCTIONS, ShardCoreset, summarise
from numerics.coreset.weighted_points import WeightedPoints, moments, spread

__all__ = [
    "CONSTRUCTIONS",
    "Features",
    "MergedCoreset",
    "ShardCoreset",
    "WeightedPoints",
    "merge_light",
    "moments",
    "reduce",
    "spread",
    "summarise",
    "union",
]
