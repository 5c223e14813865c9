"""The one-pass coreset of fair k-means: colour-aware, of integer weights, its movement measured.

Source: papers/fair_coresets.txt, Definition 4, Theorem 7 and Algorithm 15; BICO (Fichtenberger et al. 2013).
"""

from numerics.coreset.features import Features
from numerics.coreset.reduce import Merged, merge_light, reduce, union
from numerics.coreset.summary import CONSTRUCTIONS, Coreset, Summarised, moments, spread, summarise

__all__ = [
    "CONSTRUCTIONS",
    "Coreset",
    "Features",
    "Merged",
    "Summarised",
    "merge_light",
    "moments",
    "reduce",
    "spread",
    "summarise",
    "union",
]
