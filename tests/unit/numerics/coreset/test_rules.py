"""Rules that name the points of a cluster."""

from __future__ import annotations

import numpy as np

from numerics.coreset.rules import MOST_CONDITIONS, rule_for


def test_a_rule_finds_a_box_and_its_share_is_what_it_says() -> None:
    rng = np.random.default_rng(0)
    x, weights = rng.uniform(size=(400, 4)), rng.integers(5, 10, 400)
    inside = np.where((x[:, 1] > 0.5) & (x[:, 3] <= 0.4), weights, 0).astype(float)
    rule = rule_for(x, inside, weights)
    assert {(each.column, each.above) for each in rule.conditions} == {(1, True), (3, False)}
    assert rule.right > 0.95
    noisy = np.where(rng.random(400) < 0.1, weights - inside, inside)
    rule = rule_for(x, noisy, weights)
    named = np.all([each.holds(x) for each in rule.conditions], axis=0)
    both = noisy[named].sum()
    assert np.isclose(rule.right, both / (noisy.sum() + weights[named].sum() - both))
    assert 1 <= len(rule.conditions) <= MOST_CONDITIONS


def test_a_cluster_that_no_threshold_tells_apart_gets_no_condition() -> None:
    """Points of two groups at the same place, of which fairness takes one."""
    x, weights = np.repeat(np.arange(10.0), 2)[:, None], np.full(20, 5)
    rule = rule_for(x, np.where(np.arange(20) % 2, 5.0, 0.0), weights)
    assert (rule.conditions, rule.right) == ((), 0.5)
    assert rule_for(np.zeros((3, 2)), np.ones(3), np.full(3, 5)).conditions == ()
