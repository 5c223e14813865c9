"""Data behind the scenarios, pooled, before anything is split or hidden: from files, from OpenML, or made."""

from scenarios.sources.coloured import (
    Coloured,
    find_adult,
    find_bank,
    find_diabetes,
    read_adult,
    read_bank,
    read_diabetes,
)
from scenarios.sources.files import DATA_VARIABLE, Grouped, Labelled, Regression
from scenarios.sources.given import (
    find_concrete,
    find_ct,
    find_grid,
    find_heart,
    heart,
    read_concrete,
    read_ct,
    read_grid,
    read_heart,
    wine,
)
from scenarios.sources.made import friedman1, friedman2, friedman3, halfmoon, made_ct, made_ct_groups

__all__ = [
    "DATA_VARIABLE",
    "Coloured",
    "Grouped",
    "Labelled",
    "Regression",
    "find_adult",
    "find_bank",
    "find_concrete",
    "find_ct",
    "find_diabetes",
    "find_grid",
    "find_heart",
    "friedman1",
    "friedman2",
    "friedman3",
    "halfmoon",
    "heart",
    "made_ct",
    "made_ct_groups",
    "read_adult",
    "read_bank",
    "read_concrete",
    "read_ct",
    "read_diabetes",
    "read_grid",
    "read_heart",
    "wine",
]
