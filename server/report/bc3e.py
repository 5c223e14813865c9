"""Report of BC3E: consensus of classifiers and clusterings."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import numpy as np

from server.report.data import Arrays, ResultsError
from server.report.protocol import HASHED_NAMES, Answer, Config, Meaning, ProtocolReport, Rival, higher, lower
from server.report.saved_arrays import check_saved, read_results

_HOLDINGS = {
    "row": "Each site holds some of the instances, with the labels that all classifiers and clusterings give them.",
    "column": "Each site holds all instances, with the labels that some of the classifiers and clusterings give them.",
    "arbitrary": "Each site holds the labels that some classifiers and clusterings give to some of the instances.",
}
"""By distribution, who holds what."""


def more_metrics(metric: str) -> Meaning | None:
    """Return the meaning of ``accuracy_NAME`` and ``reliability_NAME``, of the classifier NAME."""
    if metric.startswith("reliability_"):
        name = metric.removeprefix("reliability_").replace("_", " ")
        return higher(f"right labels of the classifier {name}, estimated without a true class", share=True)
    if not metric.startswith("accuracy_"):
        return None
    return higher(f"accuracy of the classifier {metric.removeprefix('accuracy_').replace('_', ' ')}", share=True)


def warnings(metrics: Mapping[str, float], arrays: Arrays) -> list[str]:
    """Return a sentence on classifiers that are copies: only equal labels have matrices equal to the last digit.

    Examples
    --------
    >>> good, bad = np.array([[0.9, 0.1], [0.2, 0.8]]), np.array([[0.6, 0.4], [0.5, 0.5]])
    >>> matrices = {"confusion_0": good, "confusion_1": bad, "confusion_2": good}
    >>> warnings({}, {"classifiers": np.array(["svm", "tree", "svm_2"]), **matrices})[0].partition(":")[0]
    'The labels of svm and svm_2 are the same in all instances'
    >>> warnings({}, {"classifiers": np.array(["svm", "tree"]), **matrices})
    []
    """
    alike: dict[bytes, list[str]] = {}
    for place, name in enumerate(arrays.get("classifiers", ())):
        alike.setdefault(np.asarray(arrays[f"confusion_{place}"]).tobytes(), []).append(str(name))
    return [
        f"The labels of {' and '.join(names)} are the same in all instances: copies agree, so they are taken for the"
        " most reliable and overrule the others. Name one of them in classes"
        for names in alike.values()
        if len(names) > 1
    ]


def holdings(config: Config, arrays: Arrays) -> str:
    """Return who holds what, by the distribution of the labels."""
    return _HOLDINGS.get(str(config.get("bc3e.distribution", "row")), "")


def disclosure(settings: Sequence[Config], payloads: Collection[str]) -> str:
    """Return what left the sites: sums, or the scores of shared instances."""
    config = settings[0]
    if "bc3e.Predict" in payloads:
        return (
            "Instances, labels and class probabilities stayed at the sites. What left them is the number of"
            " instances classified, and how many decisions were right where the site knows the true class."
        )
    if "bc3e.PredictShared" in payloads:
        return (
            "Labels stayed at the sites. Of instances that several sites hold, each site sent its part of their"
            " class scores; of all others, their number. Sites that know the true classes sent how many decisions"
            f" were right.{HASHED_NAMES.format('instances')}"
        )
    if config.get("bc3e.distribution", "row") == "row":
        masked = " (masked: only their total over all sites is readable)" if config.get("secure-aggregation") else ""
        return (
            "Instances, labels and class probabilities stayed at the sites. What left them are sums over a site's"
            f" instances{masked}, and how many decisions were right where the site knows the true class."
        )
    return (
        "Labels stayed at the sites. Of instances that several sites hold, each site sent its part of their class"
        f" scores; of all others, sums only.{HASHED_NAMES.format('instances')}"
    )


def earlier_arrays(config: Config) -> Arrays:
    """Return alpha, beta and ``session`` of the run that `from` names, to classify new instances by."""
    path = str(config["from"]).strip()
    if not path:
        return {}
    report, arrays = read_results(path, "from", "bc3e")
    if "clusterings" not in arrays:
        raise ResultsError(f"from: {path} does not name its clusterings; run it again with this version")
    check_saved(path, "bc3e", arrays)
    return {**arrays, "session": np.array(report.session)}


REPORT = ProtocolReport(
    question="What class is each of our instances, given all our classifiers and clusterings?",
    test_advice="name the column of true classes in truth, if some rows have one and there is a classifier",
    column_keys={
        "classes": "class labels",
        "clusters": "cluster labels",
        "id": "names of instances",
        "truth": "true class",
    },
    answers=(
        Answer(
            "accuracy",
            "{who} put {value} of {their} instances into the right class",
            {
                "accuracy_majority": Rival("by majority vote", "the majority vote", "alone"),
                "accuracy_best_component": Rival(
                    "by the best single classifier", "the best single classifier", "best site"
                ),
            },
            unit="instance of known class",
        ),
        Answer("n_predicted", "{who} classified {value} new instances of {their} own; no true classes are known"),
        Answer(
            "bound",
            "{who} classified {their} instances at a bound on the log-likelihood of {value}; no true classes are"
            " known, and so no accuracy",
        ),
    ),
    metrics={
        "accuracy": higher("instances in their right class", share=True),
        "accuracy_majority": higher("accuracy of the majority vote of the classifiers", share=True),
        "accuracy_best_component": higher("accuracy of the best single classifier, known only afterwards", share=True),
        "bound": higher("lower bound on the log likelihood of all labels"),
        "rounds_to_converge": lower("rounds until the bound stopped rising"),
        "converged": higher("fits that converged before the last round allowed", share=True),
        "gain": higher("what clusterings tell of the classes that classifiers leave open", share=True),
        "unsure": lower("instances that their sites list as unsure", share=True),
        "n_predicted": Meaning("rows predicted"),
    },
    measures={"change": "rise of the bound, as a share of it"},
    payloads={
        "Survey": "asks what a site holds",
        "Holdings": "names and sizes of a site's models, number of its instances; if shared, hashes of their names",
        "Setup": "common sizes, and which instances several sites hold",
        "Starts": "votes for instances that several sites hold labels of",
        "EStep": "parameters of the model: alpha and beta",
        "Statistics": "sums over a site's own instances",
        "Sweep": "class scores of instances that several sites hold labels of",
        "Shares": "a site's part of these scores",
        "Predict": "parameters of an earlier run, to classify new instances",
        "PredictionTally": "number of instances classified, and of right decisions",
        "PredictShared": "parameters of an earlier run, and which instances several sites hold",
        "Conclude": "the final parameters, for the class probabilities at the site",
        "Tally": "number of right decisions, where the site knows the true classes",
    },
    saved_arrays={
        "alpha": "positive k",
        "clusterings": "names m",
        "beta_#m": "share k _",
        "classifiers": "names c",
        "confusion_#c": "share k k",
        "draws": "float",
    },
    more_metrics=more_metrics,
    holdings=holdings,
    disclosure=disclosure,
    earlier_arrays=earlier_arrays,
    warnings=warnings,
)
