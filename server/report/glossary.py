"""What the names in a report mean: every metric in plain words and which way is better, every payload, every round."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

Better = Literal["lower", "higher", ""]


@dataclass(frozen=True)
class Meaning:
    """What a number says.

    Attributes
    ----------
    words : str
        Its name in plain words.
    better : str
        ``"lower"``, ``"higher"``, or empty where neither is better.
    share : bool
        Whether it is a share, which reads best in percent.
    target : float or None
        The value it should have, where neither lower nor higher is better: the nearer, the better.
    """

    words: str
    better: Better = ""
    share: bool = False
    target: float | None = None


def _lower(words: str, *, share: bool = False) -> Meaning:
    return Meaning(words, "lower", share)


def _higher(words: str, *, share: bool = False) -> Meaning:
    return Meaning(words, "higher", share)


METRICS: Mapping[str, Meaning] = {
    # bc3e
    "accuracy": _higher("instances put into their right class", share=True),
    "accuracy_majority": _higher("right by majority vote of the classifiers", share=True),
    "accuracy_best_component": _higher("right by the best single classifier, known only afterwards", share=True),
    "bound": _higher("lower bound on the log likelihood of all labels"),
    "rounds_to_converge": _lower("rounds until the bound no longer rose"),
    "converged": _higher("fits that converged before the last round allowed", share=True),
    # sec
    "mse_cluster": _lower("mean squared error, every learner with its cluster"),
    "mse_alone": _lower("mean squared error, every learner alone"),
    "mse_all": _lower("mean squared error, all learners together"),
    "mse_oracle": _lower("mean squared error, were the true clusters known"),
    "n_clusters": Meaning("clusters"),
    "n_learners": Meaning("learners"),
    "n_measured": Meaning("learners with rows held out to measure errors on"),
    "n_unclustered": _lower("learners of whom too little is known to say where they belong"),
    "clusters_correct": _higher("draws in which every learner is in its true cluster", share=True),
    "adjusted_rand": _higher("agreement with the true clusters, adjusted Rand index (1: all, 0: by chance)"),
    # residual
    "test_mse": _lower("mean squared error on test rows"),
    "test_mse_last": _lower("mean squared error on test rows after the last iteration"),
    "test_mse_once": _lower("mean squared error on test rows when everybody has been asked once, combined linearly"),
    "test_mse_best": _lower("mean squared error on test rows at the best iteration, known only afterwards"),
    "train_mse": _lower("mean squared error on the rows learnt from"),
    "train_mse_last": _lower("mean squared error on the rows learnt from after the last iteration"),
    "validation_mse": _lower("mean squared error on the rows on which the end was chosen"),
    "mse_average": _lower("mean squared error of the mean of the agents alone"),
    "mse_centralized": _lower("mean squared error of boosted trees on all columns in one place"),
    "mse_pooled": _lower("mean squared error of scikit-learn's gradient boosting on all columns in one place"),
    "iterations": Meaning("iterations of the result"),
    "power": Meaning("exponent p of the reweighting"),
    "power_relevant": Meaning("mean square of the predictions of agents with a relevant column, summed"),
    "power_irrelevant": _lower("mean square of the predictions of agents with an irrelevant column, summed"),
    "contraction": _lower("factor by which a step shrinks from one turn to the next"),
    "n_aligned": Meaning("entities known to every party"),
    "n_lost": _lower("entities left out, for not everybody knows them"),
    "n_agents": Meaning("agents"),
    "n_test": Meaning("test rows"),
    "n_predicted": Meaning("rows predicted"),
    "numbers_down": _lower("numbers sent to the sites in an iteration"),
    "numbers_up": _lower("numbers sent by the sites in an iteration"),
    "asks_per_iteration": _lower("asks in an iteration"),
    # coreset
    "cost": _lower("cost of the fair clusters (squared distance of rows from their centers, summed)"),
    "cost_coreset": Meaning("cost of the weighted points that stand for the rows"),
    "cost_unfair": _lower("cost of clusters that need not be fair"),
    "cost_bound": Meaning("upper bound of the cost, from the points alone"),
    "cost_lower": Meaning("lower bound of the cost of every fair assignment to these centers"),
    "cost_fairlets": Meaning("cost of joining rows into fair groups, which no fair clustering is below"),
    "cost_planted": _lower("cost of the clusters that the data were made with"),
    "cost_full": _lower("cost of the same algorithm on all rows in one place"),
    "cost_full_unfair": _lower("cost of clusters that need not be fair, all rows in one place"),
    "cost_cklv": _lower("cost of CKLV k-means++ on all rows in one place"),
    "cost_reassigned": _lower("cost of reassigned CKLV on all rows in one place"),
    "price_of_fairness": _lower("price of fairness: how much dearer than clusters that need not be fair", share=True),
    "price_of_fairness_full": _lower("price of fairness with all rows in one place", share=True),
    "gap": _lower("how much dearer than the lower bound", share=True),
    "error": _lower("how much dearer than the same algorithm on all rows in one place", share=True),
    "relative": _lower("cost by that of CKLV k-means++ on all rows in one place"),
    "fairlet_share": Meaning("cost of fair groups by that of CKLV k-means++"),
    "gain": _higher("how much cheaper than reassigned CKLV on all rows in one place", share=True),
    "excess": _lower("how much dearer than the clusters that the data were made with", share=True),
    "max_violation": _lower("rows by which a colour misses its bounds in a cluster, at most"),
    "balance": _higher("balance: smallest ratio of a colour's share of a cluster to its share of all rows, or inverse"),
    "n_colours": Meaning("colours"),
    "n_rows": Meaning("rows of all sites"),
    "n_coreset": Meaning("weighted points that were clustered"),
    "n_sent": Meaning("weighted points that the sites sent"),
    "n_merged": Meaning("points that stood for too few rows and joined another"),
    "n_withheld": _lower("rows of which nothing was sent, for their colour is too rare at their site"),
    # gp
    "smse": _lower("standardised mean squared error (0: exact, 1: no better than the mean output)"),
    "msll": _lower("mean standardised log loss (0: no better than the mean and variance of the outputs)"),
    "rmse": _lower("root mean squared error, in units of the output"),
    "smse_full": _lower("standardised mean squared error of one Gaussian process of all rows"),
    "msll_full": _lower("mean standardised log loss of one Gaussian process of all rows"),
    "log_likelihood": _higher("log likelihood of the outputs, per row"),
    "fit_rounds": _lower("asks until the hyperparameters were found"),
    "noise": Meaning("standard deviation of the noise, by that of the outputs"),
    "n_experts": Meaning("Gaussian process experts"),
    "n_queries": Meaning("points predicted"),
    "n_selected": Meaning("experts asked for a point, on average"),
    "n_dropped": _lower("answers that experts owed and did not give"),
    "bytes_per_query": _lower("bytes on the wire for a point"),
    # of all
    "n_cells": Meaning("rows of the scenario's table"),
}
"""By metric, what it says; `meaning` knows those with a name of a model or a level in them, too."""

_COVERAGE = re.compile(r"coverage_(\d\d)")


def meaning(name: str) -> Meaning | None:
    """What a metric of that name says; None for one that nobody described."""
    if name in METRICS:
        return METRICS[name]
    if level := _COVERAGE.fullmatch(name):
        return Meaning(f"outputs inside their {level[1]} % interval", share=True, target=int(level[1]) / 100)
    if name.startswith("mse_test_") and (known := METRICS.get(f"mse_{name.removeprefix('mse_test_')}")):
        return replace(known, words=f"{known.words}, on the fusion center's test rows")
    if name.startswith("accuracy_"):
        return _higher(f"right by the classifier {name.removeprefix('accuracy_').replace('_', ' ')}", share=True)
    return None


def direction(known: Meaning | None) -> str:
    """Which way is better, in words; empty where neither is."""
    if known is None:
        return ""
    return (
        f"best near {100 * known.target:g} %"
        if known.target is not None
        else known.better and f"{known.better} is better"
    )


MEASURES: Mapping[str, str] = {
    "open": "fits under way in this round (repetitions, restarts, rows of the table); what follows is of one of them",
    "change": "by how much the bound rose, as a share of it",
    "train": "mean squared error on the rows learnt from",
    "validation": "mean squared error on the rows on which the end is chosen",
    "test": "mean squared error on test rows",
    "learners": "learners whose models are compared",
    "models": "models of a learner, at most",
    "points": "weighted points that the sites sent",
    "gain_expected": "by how much the cost may still fall, as a share of it",
    "queries": "points to predict",
    "predicted": "rows predicted",
    "gate_loss": "how badly the gate tells whose rows are whose (cross-entropy, nats a row)",
}
"""By name, what a round's own measure says that is no metric."""

PAYLOADS: Mapping[str, str] = {
    "envelope": "site's name, round, seed and session, around every message",
    "bc3e.Survey": "asks what a site holds",
    "bc3e.Holdings": "names and sizes of a site's models, number of its instances; if shared, hashes of their names",
    "bc3e.Setup": "sizes agreed on, and which instances are at several sites",
    "bc3e.Starts": "votes for instances that several sites hold labels of",
    "bc3e.EStep": "parameters of the model: alpha and beta",
    "bc3e.Statistics": "sums over a site's own instances",
    "bc3e.Sweep": "class scores of instances that several sites hold labels of",
    "bc3e.Shares": "a site's part of these scores",
    "bc3e.Predict": "parameters that an earlier run learnt, to tell new instances their class",
    "bc3e.Predicted": "how many instances were told their class, and how many decisions were right",
    "bc3e.PredictShared": "the same where instances are shared, and which these are",
    "bc3e.Conclude": "the parameters to keep, for the class probabilities at the site",
    "bc3e.Tally": "how many decisions were right, where the site knows the true classes",
    "sec.Select": "candidate methods and how to choose among them",
    "sec.Fitted": "a learner's fitted model, its method, error and number of rows; if pooled, moments of its columns",
    "sec.Exchange": "the learners' models, for all to try",
    "sec.Losses": "errors of the others' models on a learner's rows",
    "sec.Predict": "a learner's cluster, and weights of the models in it",
    "sec.Errors": "errors on rows that a learner held out",
    "residual.Enrol": "asks what a site holds",
    "residual.Enrolled": "hashed names of the entities, numbers of rows and columns",
    "residual.Order": "the entities known to all, and how to learn",
    "residual.Ready": "the order is understood",
    "residual.Fit": "the residual that an agent is to fit, a number for every entity",
    "residual.Fitted": "an agent's predictions, a number for every entity",
    "residual.Try": "the residual, to say how well it could be fitted",
    "residual.Tried": "how well an agent could fit it",
    "residual.Show": "asks the best agent for its predictions",
    "residual.Conclude": "which model an agent is to keep",
    "residual.Concluded": "whether it was kept",
    "residual.Predict": "asks for predictions of the rows that the agents have now",
    "residual.Predicted": "an agent's part of the predictions, a number for every entity",
    "residual.Sealed": "a message from one site to another, encrypted; the center relays it",
    "residual.SealedAnswer": "the answer to it, encrypted",
    "residual.Lead": "asks the site with the outcome to do the fusion center's arithmetic",
    "residual.Fuse": "the agents' encrypted answers, to the site with the outcome",
    "residual.Fused": "what that site asks next, encrypted; at the end what came out",
    "residual.Pass": "asks an agent for its turn in the ring",
    "residual.Passed": "the residual for the next agent, encrypted, and its mean square",
    "residual.Residual": "the residual on its way in the ring",
    "residual.Sum": "agents' encrypted parts of the predictions, to the site with the outcome",
    "residual.Summed": "how many predictions were made; they stay at that site",
    "residual.KeepEnsemble": "what the site with the outcome needs for predictions later",
    "residual.Present": "asks for encrypted predictions with an earlier run's model",
    "coreset.Summarise": "how to sum up the rows",
    "coreset.Summary": "weighted points, each the mean of rows of one colour",
    "coreset.Assign": "centers, and how many rows of each point go to each",
    "coreset.Price": "centers, and prices that make clusters fair",
    "coreset.Masses": "how many rows of each colour would go where at these prices",
    "coreset.Settle": "centers, and the last prices",
    "coreset.Counted": "rows of each colour in each cluster, and what they cost",
    "gp.Survey": "asks which experts a site has",
    "gp.Moments": "numbers of rows, means and covariances of a site's experts",
    "gp.Evaluate": "hyperparameters to try",
    "gp.Likelihood": "how likely the outputs are with them, summed over a site's experts",
    "gp.Train": "the gate's network, to say how well it tells whose rows are whose",
    "gp.Slope": "the network's loss and gradient over a site's rows",
    "gp.Share": "asks for rows for the communication expert",
    "gp.Rows": "rows that a site consented to show to all",
    "gp.Disclose": "asks for the inputs of all rows",
    "gp.Inputs": "inputs of all rows, which a site consented to disclose",
    "gp.Predict": "points to predict, and the experts asked for each",
    "gp.Predictions": "an expert's mean and variance at each of these points",
    "secure_aggregation.Join": "asks for a new public key",
    "secure_aggregation.Keys": "a site's public key, by which others encrypt for it",
    "secure_aggregation.Deal": "asks for secrets of masks, shared out among the sites",
    "secure_aggregation.Shares": "these secrets in shares, encrypted for the other sites",
    "secure_aggregation.Hide": "an ask that is to be answered under masks",
    "secure_aggregation.Hidden": "an answer under masks: only the sum of all can be read",
    "secure_aggregation.Show": "asks for shares of the secrets of sites that fell silent",
    "secure_aggregation.Shown": "a site's shares of these secrets",
}
"""By the name under which the ledger lists it, what a payload holds; docs/NAME.md of the protocol has every field."""
