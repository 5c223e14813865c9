"""Report of fair clustering from coresets."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from server.report.data import Arrays
from server.report.formatting import percent
from server.report.protocol import Answer, Config, Meaning, ProtocolReport, Rival, higher, lower


def holdings(config: Config, arrays: Arrays) -> str:
    """Return who holds what."""
    return "Each site holds rows of the same columns, and the group of every row: the value of its sensitive attribute."


def disclosure(settings: Sequence[Config], payloads: Collection[str]) -> str:
    """Return what left the sites: weighted points, counts, and where prices were used, counts of single rows."""
    least = min(int(each.get("coreset.min-weight") or 5) for each in settings)
    points = f"weighted points, each the mean of {least} rows or more of one group" if least > 1 else "weighted points"
    single = " A point may be a single row here (a setting allows it)." if least == 1 else ""
    sums = ", rounded sums of the rows at each center" if "coreset.Moments" in payloads else ""
    counts = (
        f" Counts of rows by group and center left them, too, some of single rows{sums}, and what rows cost."
        if "coreset.Masses" in payloads
        else ""
    )
    alone = (
        " Three sums say what a site's rows cost in clusters of its own." if "coreset.CostsAlone" in payloads else ""
    )
    return (
        f"Rows stayed at the sites. What left them are {points}, and how many rows of each group are in each"
        f" cluster.{single}{counts}{alone}"
    )


def warnings(metrics: Mapping[str, float], arrays: Arrays) -> list[str]:
    """Return what clusters of each site alone are not."""
    if "cost_alone" not in metrics:
        return []
    off = metrics["share_off_alone"]
    shares = f": these lie up to {percent(off)} of a cluster's rows outside the bounds" if off >= 0.001 else ""
    return [
        "Each site's own clusters are not the same at all sites, and fair by the site's own shares of groups"
        f"{shares or ', which are within the bounds'}."
    ]


_UNFAIR = 0.1
"""Share of a cluster's rows from which on clusters outside the bounds are not fair.

Chance alone moves shares of 100 rows by a tenth.
"""

REPORT = ProtocolReport(
    question="How do we cluster all our records so that every cluster is fair?",
    column_keys={"sensitive": "group", "features": "columns"},
    answers=(
        Answer(
            "cost_left_out",
            "{who} put {n_assigned} into fair clusters at a cost of {cost}. A row that had no part in them costs"
            " {value}",
            {
                "cost_alone": Rival(
                    "by each site alone",
                    "each site's own clusters",
                    "alone",
                    breaks=("share_off_alone", _UNFAIR, "lie up to {value} of a cluster's rows outside the bounds"),
                )
            },
            ("cost", "max_violation", "balance", "price_of_fairness", "n_coreset"),
            also="The price of fairness is {price_of_fairness}; a group misses its bounds in a cluster by"
            " {max_violation} at most.",
            unit="row",
        ),
        Answer(
            "cost",
            "{who} put {n_assigned} into fair clusters at a cost of {value}",
            {
                "cost_full": Rival(
                    "by the same algorithm on all rows in one place",
                    "all rows in one place",
                    "out of reach",
                    "rows in separate places",
                ),
                "cost_unfair": Rival(
                    "without the bounds of fairness", "clusters without bounds", "out of reach", "fairness"
                ),
            },
            ("max_violation", "balance", "price_of_fairness", "n_coreset"),
            also="A group misses its bounds of fairness in a cluster by {max_violation} at most.",
            also_at_0=("max_violation", "Every cluster keeps the bounds of fairness."),
            in_tables=("error", "relative", "price_of_fairness", "excess"),
            unit="row",
        ),
    ),
    metrics={
        "cost": lower("cost of the fair clusters (squared distance of rows from their centers, summed)"),
        "cost_coreset": Meaning("cost of the weighted points that stand for the rows"),
        "cost_unfair": lower("cost of clusters without bounds of fairness"),
        "cost_bound": Meaning("upper bound of the cost, from the points alone"),
        "cost_lower": Meaning("lower bound of the cost of every fair assignment to these centers"),
        "cost_fairlets": Meaning("cost of joining rows into fairlets, a lower bound of every fair clustering's cost"),
        "cost_planted": lower("cost of the planted clusters, by which the data were made"),
        "cost_full": lower("cost of the same algorithm on all rows in one place"),
        "cost_full_unfair": lower("cost of clusters without bounds of fairness, all rows in one place"),
        "cost_left_out": lower("cost of a row that had no part in the clusters (mean)"),
        "cost_alone": lower("cost of a row that had no part in them, in fair clusters of its own site alone (mean)"),
        "share_off_alone": lower(
            "how far a group's share of a site's rows, and so of its clusters alone, lies outside the bounds",
            share=True,
        ),
        "cost_cklv": lower("cost of CKLV k-means++ on all rows in one place"),
        "cost_reassigned": lower("cost of reassigned CKLV on all rows in one place"),
        "price_of_fairness": lower(
            "price of fairness: by how much fair clusters cost more than clusters without bounds", share=True
        ),
        "price_of_fairness_full": lower("price of fairness with all rows in one place", share=True),
        "gap": lower("excess of the cost over its lower bound", share=True),
        "error": lower("excess of the cost over that of the same algorithm on all rows in one place", share=True),
        "relative": lower("cost divided by that of CKLV k-means++ on all rows in one place"),
        "fairlet_share": Meaning("cost of fairlets divided by that of CKLV k-means++"),
        "gain": higher("saving in cost over reassigned CKLV on all rows in one place", share=True),
        "excess": lower("excess of the cost over that of the planted clusters", share=True),
        "max_violation": lower("rows by which a group misses its bounds in a cluster, at most", counts="row"),
        "balance": higher(
            "balance: smallest ratio of a group's share of a cluster to its share of all rows, or inverse"
        ),
        "n_groups": Meaning("groups"),
        "n_coreset": Meaning("weighted points that were clustered"),
        "n_sent": Meaning("weighted points that the sites sent"),
        "n_assigned": Meaning("rows in the clusters", counts="row"),
        "n_merged": Meaning("points that stood for too few rows and were merged with another"),
        "n_withheld": lower("rows of which nothing was sent, since their group is too rare at their site"),
    },
    measures={
        "points": "weighted points that the sites sent",
        "gain_expected": "further fall of the cost that is still possible, as a share of it",
    },
    payloads={
        "Summarize": "settings of the coreset",
        "Summary": "weighted points, each the mean of rows of one group",
        "Assign": "centers, and how many rows of each point go to each",
        "Price": "centers, and prices that make clusters fair",
        "Refine": "centers that move, and prices that make clusters fair",
        "Moments": "how many rows of each group would go to which center, and rounded sums of these rows",
        "Masses": "how many rows of each group would go to which center at these prices",
        "Settle": "centers, and the last prices",
        "Compare": "centers, and how many rows of each point go to each, to say how well a site does alone",
        "CostsAlone": "costs of rows left out, at the site's own centers and at the joint ones, with three digits",
        "ClusterCounts": "rows of each group in each cluster",
        "ClusterCosts": "rows of each group in each cluster, and what they cost",
    },
    saved_arrays={
        "features": "names d",
        "scale": "positive d",
        "centers": "number k d",
        "balance": "fraction",
        "groups": "names H",
        "points": "number n d",
        "point_groups": "place<H n",
        "point_clusters": "place<k n",
    },
    packages=("ortools",),
    holdings=holdings,
    disclosure=disclosure,
    warnings=warnings,
)
