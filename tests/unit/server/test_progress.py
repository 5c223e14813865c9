"""The rounds of a run while it goes on: what is written, and what is said of a run in each state."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from consilience import cli
from server.progress import ProgressFile, newest_run, progress_file, status_of
from server.report.data import ResultsError

ROW = {"round": 1, "bound": -12.5, "sites": 3, "bytes_to_sites": 20_500, "bytes_from_sites": 40, "seconds": 0.25}


def partial(folder: Path, name: str = "7") -> Path:
    made = folder / "wine" / f".{name}.partial"
    made.mkdir(parents=True)
    return made


def shown(*arguments: str | Path) -> str:
    result = CliRunner().invoke(cli.app, ["status", *map(str, arguments)])
    assert result.exit_code == 0, result.output
    return result.stdout


def test_a_run_is_running_until_its_block_ends_also_under_its_final_name(tmp_path: Path) -> None:
    hidden, final = partial(tmp_path), tmp_path / "wine" / "7"
    with progress_file(hidden) as progress:
        assert (status_of(final).state, status_of(final).rounds) == ("running", ())
        progress.write(ROW)
        assert status_of(hidden).rounds == (ROW,)
        assert status_of(final).path == final
    assert status_of(final).state == "interrupted"
    hidden.rename(final)
    (final / "report.json").write_text("{}")
    assert (status_of(final).state, status_of(final).rounds) == ("finished", (ROW,))


def test_a_line_that_is_half_written_is_left_out_and_what_is_not_finite_is_null(tmp_path: Path) -> None:
    hidden = partial(tmp_path)
    progress = ProgressFile(hidden)
    progress.write({**ROW, "bound": float("nan")})
    with (hidden / "progress.jsonl").open("a") as file:
        file.write('{"round": 2')
    rows = status_of(hidden).rounds
    assert [row["bound"] for row in rows] == [None]


def test_a_damaged_line_is_named(tmp_path: Path) -> None:
    hidden = partial(tmp_path)
    (hidden / "progress.jsonl").write_text("{\n")
    with pytest.raises(ResultsError, match=r"progress\.jsonl cannot be read"):
        status_of(hidden)


def test_the_newest_run_is_the_one_that_wrote_last(tmp_path: Path) -> None:
    older, newer = partial(tmp_path, "8"), partial(tmp_path, "7")
    for place, folder in enumerate((older, newer)):
        ProgressFile(folder).write(ROW)
        for path in (folder, folder / "progress.jsonl"):
            os.utime(path, (1000 + place, 1000 + place))
    assert newest_run(tmp_path) == tmp_path / "wine" / "7"
    os.utime(older / "progress.jsonl", (2000, 2000))
    assert newest_run(tmp_path) == tmp_path / "wine" / "8"


def test_without_a_run_the_line_says_what_to_name(tmp_path: Path) -> None:
    with pytest.raises(ResultsError, match=r"there is no run in .*another --output-dir"):
        newest_run(tmp_path)
    result = CliRunner().invoke(cli.app, ["status", str(tmp_path / "wine" / "9")])
    assert result.exit_code == 1
    assert result.stderr.startswith(f"there is no run {tmp_path / 'wine' / '9'}: give OUTPUT-DIR/NAME/RUN-ID")


def test_the_command_shows_state_total_and_the_last_rounds(tmp_path: Path) -> None:
    hidden = partial(tmp_path)
    with progress_file(hidden) as progress:
        assert shown("--output-dir", tmp_path).splitlines() == [
            f"running  {tmp_path / 'wine' / '7'}",
            "no round has ended yet",
        ]
        rows: list[dict[str, Any]] = [{**ROW, "round": number} for number in range(1, 13)]
        for row in rows:
            progress.write(row)
    state, total, head, *lines = shown(tmp_path / "wine" / "7", "--last", "2").splitlines()
    assert state.startswith("interrupted")
    assert total == "12 rounds in 3.0 s"
    assert head.split() == ["round", "sites", "bound", "to", "sites", "from", "sites", "seconds"]
    assert [line.split() for line in lines] == [
        [number, "3", "-12.5", "20.5", "kB", "40", "B", "0.25"] for number in ("11", "12")
    ]
