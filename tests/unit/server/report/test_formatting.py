"""Numbers as text."""

import math

import pytest

from server.report.formatting import folded, human_bytes, human_seconds, percent, with_error


@pytest.mark.parametrize(
    ("value", "error", "text"),
    [
        (0.9421, 0.004, "0.942 ± 0.004"),
        (0.9421, 0.0014, "0.9421 ± 0.0014"),
        (0.9421, 0.00996, "0.942 ± 0.010"),
        (-1234.56, 12.3, "-1235 ± 12"),
        (3.0, 0.0, "3 ± 0"),
        (1.0, 1e-17, "1 ± 1e-17"),
    ],
)
def test_a_standard_error_sets_the_digits(value, error, text):
    assert with_error(value, error) == text


def test_a_standard_error_without_its_value_is_shown_by_itself():
    assert folded({"x_se": 0.5, "y": 1.0, "y_se": 0.1}) == {"x_se": "0.5", "y": "1.00 ± 0.10"}
    assert folded({"x": None, "x_se": None}) == {"x": "", "x_se": ""}


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "0 B"), (999, "999 B"), (1000, "1.0 kB"), (999_949, "999.9 kB"), (999_960, "1.0 MB"), (5 * 10**12, "5.0 TB")],
)
def test_human_bytes(count, text):
    assert human_bytes(count) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.0, "0.0 s"),
        (0.04, "40 ms"),
        (1e-5, "below 1 ms"),
        (0.0996, "0.1 s"),
        (12.34, "12.3 s"),
        (59.97, "1 min 0 s"),
        (125.2, "2 min 5 s"),
        (3720, "1 h 2 min"),
    ],
)
def test_human_seconds(seconds, text):
    assert human_seconds(seconds) == text


@pytest.mark.parametrize(
    ("share", "error", "text"),
    [
        (0.0, None, "0.0 %"),
        (0.9562, None, "95.6 %"),
        (1.0, None, "100 %"),
        (5.512, None, "551 %"),
        (0.0023, None, "0.23 %"),
        (1e-6, None, "0.0001 %"),
        (0.942, 0.004, "94.2 ± 0.4 %"),
        (0.5, 0.0, "50.0 %"),
    ],
)
def test_percent(share, error, text):
    assert percent(share, error) == text


def test_an_error_that_is_not_finite_is_shown_as_it_is():
    assert with_error(1.0, math.nan) == "1 ± nan"
    assert with_error(1.0, math.inf) == "1 ± inf"
