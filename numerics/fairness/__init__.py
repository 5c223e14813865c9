"""The arithmetic of fair k-means (Schmidt, Schwiegelshohn and Sohler 2018), wherever it is done.

`bounds` says what is fair; `assignment` gives points to centers fairly at least cost, by `flow` where two colours are
to be balanced exactly and by a linear program otherwise; `dual` prices the same assignment from sums over points alone,
so that a federation can do it; `masses` makes whole numbers of what was priced.
"""

from numerics.fairness.assignment import Assignment, fair_assignment
from numerics.fairness.bounds import Bounds
from numerics.fairness.clustering import Algorithm, Clustering, fair_clustering, plain_clustering
from numerics.fairness.distribute import Shares, distribute
from numerics.fairness.fairlets import Fairlets, fairlets
from numerics.fairness.flow import capacitated

__all__ = [
    "Algorithm",
    "Assignment",
    "Bounds",
    "Clustering",
    "Fairlets",
    "Shares",
    "capacitated",
    "distribute",
    "fair_assignment",
    "fair_clustering",
    "fairlets",
    "plain_clustering",
]
