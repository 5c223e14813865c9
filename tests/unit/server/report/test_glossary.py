"""Meaning of metrics, measures and payloads."""

import importlib

import pytest

from protocols.registry import SHARED
from protocols.registry import names as protocol_names
from protocols.wire.payload import Payload
from server.report.glossary import meaning, measure_words, payload_words
from server.report.protocol import report_of


def payloads():
    for name in (*protocol_names(), *SHARED):
        importlib.import_module(f"protocols.{name}.payloads")
    classes = [each for each in every_subclass(Payload) if each.__module__.startswith("protocols.")]
    asks = [each for each in classes if each.__dict__.get("answer") is not None]
    return {each.title() for each in asks} | {each.answer.title() for each in asks}


def every_subclass(kind):
    return [found for each in kind.__subclasses__() for found in (each, *every_subclass(each))]


def test_every_payload_that_can_cross_is_explained():
    every = payloads()
    assert {"bc3e.EStep", "gp.Predictions", "secure_aggregation.Keys"} <= every
    assert not [name for name in every if not payload_words(name)]
    assert all(words[0].islower() for name in every if (words := payload_words(name)))
    assert payload_words("envelope")
    assert payload_words("unheard-of.Ask") == payload_words("Ask") == ""


@pytest.mark.parametrize("protocol", protocol_names())
def test_no_payload_is_explained_that_does_not_exist(protocol):
    payloads()
    assert {f"{protocol}.{name}" for name in report_of(protocol).payloads} <= {
        each.title() for each in every_subclass(Payload)
    }


def test_metrics_with_a_name_in_them_are_explained_too():
    assert meaning("gp", "coverage_95").target == 0.95
    assert meaning("gp", "coverage_95").words == "outputs inside their 95 % interval"
    assert meaning("bc3e", "accuracy_naive_bayes").words == "accuracy of the classifier naive bayes"
    assert meaning("sec", "mse_test_all").words.startswith(meaning("sec", "mse_all").words)
    assert meaning("sec", "mse_test_x") is meaning("sec", "unheard-of") is None
    assert meaning("sec", "coverage_95") is meaning("unheard-of", "coverage_95") is None
    assert meaning("unheard-of", "n_rows").counts == "row"


def test_measures_of_a_round_are_explained():
    assert measure_words("bc3e", "change") == "rise of the bound, as a share of it"
    assert measure_words("bc3e", "bound") == meaning("bc3e", "bound").words
    assert "fits under way" in measure_words("bc3e", "open")
    assert measure_words("bc3e", "unheard-of") == ""
