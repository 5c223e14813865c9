"""What is seen of a run in Python while it goes on."""

from __future__ import annotations

import pytest

from consilience.run_watch import SiteErrors, watch


def test_errors_that_differ_by_the_site_only_are_one_line() -> None:
    errors = SiteErrors()
    for number in range(5):
        errors.read(f"ERROR : site site-{number}: round 1: it has no rows [too-few-rows]")
    errors.read("ERROR : \x1b[91mnorth.csv: there is no column 'z'\x1b[0m")
    errors.read("WARNING : round 1: site-1: no answer")
    assert errors.lines() == [
        "site-0, site-1, site-2 and 2 more: round 1: it has no rows [too-few-rows]",
        "north.csv: there is no column 'z'",
    ]


def test_how_to_go_on_is_said_of_results_that_stay() -> None:
    line = 'ERROR : to go on: resume-from="/results/sec/1"'
    for resumable, lines in ((True, ['to go on: resume_from="/results/sec/1"']), (False, [])):
        errors = SiteErrors(resumable=resumable)
        errors.read(line)
        assert errors.lines() == lines


@pytest.mark.parametrize("progress", [None, False])
def test_where_nobody_looks_only_errors_are_printed(capsys: pytest.CaptureFixture[str], progress: bool | None) -> None:
    with watch(progress) as show:
        show("INFO : round  1  mse=0.5")
        show("ERROR : site north: round 1: it has no rows")
    printed = capsys.readouterr()
    assert (printed.out, printed.err) == ("", "north: round 1: it has no rows\n")


def test_the_log_is_there_for_who_asks(capsys: pytest.CaptureFixture[str]) -> None:
    with watch("log") as show:
        show("INFO : round  1  mse=0.5")
    assert "round  1  mse=0.5" in capsys.readouterr().err


def test_errors_are_printed_although_the_run_fails(capsys: pytest.CaptureFixture[str]) -> None:
    def fail() -> None:
        with watch(False) as show:
            show("ERROR : site north: round 1: it has no rows")
            raise ValueError("stopped")

    with pytest.raises(ValueError, match="stopped"):
        fail()
    assert "north: round 1" in capsys.readouterr().err
