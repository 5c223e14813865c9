"""Question, data, holdings and disclosure of a run."""

import numpy as np
import pytest

from protocols.registry import names as protocol_names
from server.report.overview import overview
from server.report.protocol import report_of


@pytest.mark.parametrize("protocol", protocol_names())
def test_every_protocol_has_a_question_and_says_what_left_the_sites(protocol):
    config = {"bc3e.distribution": "row", "coreset.min-weight": 5, "data": "/d", "target": "y", "sensitive": "sex"}
    texts = overview(protocol, config, [], 3, "", (), {})
    assert texts["question"] == report_of(protocol).question
    assert texts["data"].startswith("Own data of 3 sites, one file each in /d")
    assert {"holdings", "disclosure"} < set(texts)
    assert "earlier" not in texts
    assert "own configuration" in overview(protocol, {**config, "data": ""}, [], 3, "", (), {})["data"]


def test_a_protocol_that_is_not_installed_has_an_overview_of_its_data():
    assert set(overview("unheard-of", {"data": "/d"}, [], 3, "", ("unheard-of.Ask",), {})) == {"data"}


def test_what_left_the_sites_is_said():
    def texts(protocol, payloads=(), cells=(), arrays=None, **config):
        named = {key.replace("__", "."): value for key, value in config.items()}
        return overview(protocol, named, cells, 2, "x", payloads, arrays or {})

    def left(*args, **options):
        return texts(*args, **options)["disclosure"]

    assert "number of instances" in left("bc3e", ["bc3e.Predict"])
    assert "their number" in left("bc3e", ["bc3e.PredictShared"])
    assert "masked" in left("bc3e", **{"secure-aggregation": True})
    assert "Of instances that several sites hold" in left("bc3e", bc3e__distribution="column")
    assert "Models that hold rows" in left("sec", **{"sec.allow-row-models": True})
    assert "encrypted" in left("residual", ["residual.Pass"])
    alone = "what their own columns alone predict of the entities"
    assert alone in left("residual", ["residual.Compare"])
    assert alone in left("residual", ["residual.Lead", "residual.SealedAsk"], residual__baselines=True)
    assert alone not in left("residual", ["residual.Lead", "residual.SealedAsk"], residual__baselines=False)
    assert alone not in left("residual", ["residual.Fit"], residual__baselines=True)
    binned = left("residual", ["residual.Bin"], residual__algorithm="bins")
    assert "in which bin" in binned
    assert "Predictions of the others" not in binned
    assert "encrypted" in left("residual", ["residual.Lead"], residual__algorithm="bins")
    assert "at the fusion center" in texts("residual", arrays={"holder": np.array("")})["holdings"]
    assert "at the fusion center" in texts("residual", arrays={"prediction": np.ones(2)})["holdings"]
    assert "at one of them" in texts("residual", arrays={"holder": np.array("b")})["holdings"]
    assert "single row here" in left("coreset", **{"coreset.min-weight": 1})
    rows = [{"coreset.min-weight": 20}, {"coreset.min-weight": 1}]
    assert "single row here" in left("coreset", cells=rows), "the row that discloses most"
    assert "some of single rows" in left("coreset", ["coreset.Masses"])
    assert "disclosed the inputs" in left("gp", ["gp.Inputs"])
    assert "are predictions at" in left("gp", ["gp.Predict", "gp.Predictions"]), "nothing was learned anew"
    assert left("gp", ["gp.Moments", "gp.Likelihood"]).endswith("and of the output and sums for the hyperparameters.")
    assert "(masked: only their total" in left("gp", ["gp.Moments", "secure_aggregation.MaskedAnswer"])
    assert "to all sites" in left("gp", ["gp.Rows"])
    assert texts("sec", **{"sec.join": "/r/7"})["earlier"].endswith("joined the clusters of an earlier run: /r/7.")
    assert texts("gp", **{"from": "/r/7"})["earlier"].endswith("/r/7.")
