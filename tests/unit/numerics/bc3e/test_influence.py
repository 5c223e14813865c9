"""What a site changes in the classes of clusters and of shared instances."""

from __future__ import annotations

import numpy as np

from numerics.bc3e.influence import label_change, membership_change


def test_a_site_like_the_others_changes_nothing() -> None:
    mass = np.array([[4, 2], [1, 6]])
    assert membership_change([3 * mass], [mass]) == 0.0


def test_swapped_classes_change_more_than_the_honest_site() -> None:
    mass = np.array([[9, 1], [1, 9]])
    honest, lie = membership_change([5 * mass], [mass]), membership_change([4 * mass + mass[::-1]], [mass[::-1]])
    assert honest == 0.0
    assert abs(lie - 0.8 * 0.2) < 1e-12


def test_clusters_that_nobody_else_has_do_not_count() -> None:
    assert membership_change([np.array([[5, 1], [0, 1]])], [np.array([[5, 0], [0, 0]])]) == 0.0
    assert membership_change([np.array([[5], [1]])], [np.array([[5], [1]])]) == 0.0
    assert membership_change([], []) == 0.0


def test_no_instances_no_change() -> None:
    assert label_change(np.zeros((2, 0)), np.zeros((2, 0))) == 0.0
