"""The Python interface: runs on data in every form, what a finished run holds, and errors in one sentence."""

from __future__ import annotations

import html
import json
import shutil
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import clients.data.columns
import clients.data.testset
import consilience as cs
import server.figures
from consilience import cli

pytestmark = pytest.mark.usefixtures("quick")

N_ROWS = 40


def numbers(seed: int, *names: str, n: int = N_ROWS) -> pd.DataFrame:
    return pd.DataFrame(np.random.default_rng(seed).normal(size=(n, len(names))), columns=list(names))


def regression(seed: int, n: int = N_ROWS) -> pd.DataFrame:
    frame = numbers(seed, "a", "b", "noise", n=n)
    return frame.assign(y=frame["a"] - frame["b"] + 0.1 * frame["noise"]).drop(columns="noise")


def labels(seed: int) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    truth = rng.integers(0, 2, N_ROWS)
    wrong = rng.random((3, N_ROWS)) < 0.2
    columns = {f"class_{j}": np.where(wrong[j], 1 - truth, truth) for j in range(3)}
    return pd.DataFrame({**columns, "cluster_0": truth + 2 * rng.integers(0, 2, N_ROWS), "truth": truth})


def parts(seed: int) -> dict[str, pd.DataFrame]:
    """Columns of the same entities at three sites."""
    frame = regression(seed, 80)
    names = [f"p{number}" for number in range(80)]
    order = np.random.default_rng(1).permutation(80)
    return {
        "bank": frame[["a"]].assign(id=names),
        "shop": frame[["b"]].assign(id=names).iloc[order],
        "town": frame[["y"]].assign(id=names),
    }


def groups(seed: int) -> pd.DataFrame:
    return numbers(seed, "east", "north", n=60).assign(sex=np.random.default_rng(seed).choice(["f", "m"], 60))


PROTOCOLS: dict[str, tuple[Any, dict[str, pd.DataFrame], dict[str, Any]]] = {
    "bc3e": (cs.BC3E(max_rounds=5), {"north": labels(1), "south": labels(2)}, {"truth": "truth"}),
    "sec": (cs.SEC(candidates="lr"), {"north": regression(1), "south": regression(2)}, {"target": "y"}),
    "residual": (cs.Residual(agent="lr", rounds=3), parts(1), {"target": "y", "id": "id"}),
    "coreset": (
        cs.Coreset(k=2, size=20, restarts=1),
        {"north": groups(1), "south": groups(2)},
        {"sensitive": "sex"},
    ),
    "gp": (
        cs.GP(experts="1", fit_rounds=2),
        {"north": regression(1), "south": regression(2)},
        {"target": "y", "queries": regression(3, 6)},
    ),
}


def folder_of(frames: dict[str, pd.DataFrame], folder: Path) -> Path:
    folder.mkdir()
    for name, frame in frames.items():
        frame.to_csv(folder / f"{name}.csv", index=False)
    return folder


def without_times(ledger: pd.DataFrame) -> list[dict[str, Any]]:
    """Lines of a ledger without what depends on the name of the run: sizes and hashes of names."""
    return ledger[["round", "direction", "site", "payload"]].to_dict("records")


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_frames_paths_and_folder_give_equal_bits(protocol: str, tmp_path: Path) -> None:
    settings, frames, more = PROTOCOLS[protocol]
    folder = folder_of(frames, tmp_path / "data")
    paths = {name: folder / f"{name}.csv" for name in frames}
    whole, by_path, by_frame = (cs.run(settings, data=data, progress=False, **more) for data in (folder, paths, frames))
    assert whole.report.sites == sorted(frames)
    for other in (by_path, by_frame):
        assert other.metrics == whole.metrics
        assert other.arrays.keys() == whole.arrays.keys()
        for name, array in whole.arrays.items():
            assert (other.arrays[name].dtype, other.arrays[name].tobytes()) == (array.dtype, array.tobytes()), name
        assert without_times(other.ledger) == without_times(whole.ledger)
    assert ("consilience run" in whole.report.shorthand) == ("queries" not in more)
    assert (by_frame.report.command, by_frame.report.shorthand) == ("", "")
    assert "given in Python" in by_frame.report.overview["data"]
    assert "The data were given in Python" in html.unescape(by_frame._repr_html_())


def test_columns_that_are_not_used_are_named_where_run_is_called() -> None:
    settings, frames, more = PROTOCOLS["sec"]
    texts = {name: frame.assign(ward="east") for name, frame in frames.items()}
    with pytest.warns(UserWarning, match="not used, since they hold no numbers: 'ward'") as warned:
        cs.run(settings, data=texts, progress=False, **more)
    assert [each.filename for each in warned] == [__file__]


def test_what_is_checked_before_the_start_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings, frames, _ = PROTOCOLS["sec"]
    folder = folder_of(frames, tmp_path / "data")
    regression(3, 9).to_csv(folder / "_test.csv", index=False)
    read: list[str] = []

    def watch(module: Any, name: str) -> None:
        function = getattr(module, name)
        monkeypatch.setattr(module, name, lambda path, **more: read.append(Path(path).name) or function(path, **more))

    watch(clients.data.columns, "read_head")
    watch(clients.data.testset, "read_table")
    assert "mse_cluster" in cs.run(settings, data=folder, target="y", progress=False).metrics
    assert sorted(read) == ["_test.csv", "north.csv", "south.csv"]


@pytest.fixture(scope="module")
def finished() -> cs.Run:
    settings, frames, more = PROTOCOLS["sec"]
    return cs.run(settings, data=frames, seed=4, progress=False, **more)


def test_a_finished_run(finished: cs.Run) -> None:
    assert repr(finished).startswith("<Run sec-own-data: 2 sites, 3 rounds. Together, 2 sites")
    assert finished.verdict.decision in ("join", "do not join", "too few rows", "undecided")
    assert finished.report.seed == 4
    assert finished.rounds["round"].tolist() == [1, 2, 3]
    assert finished.ledger["site"].isin(["north", "south"]).all()
    assert "who" in finished.table
    assert finished.arrays["labels"].shape == (2,)
    assert "&lt;html" in finished._repr_html_()


def test_what_each_site_keeps_at_home(finished: cs.Run) -> None:
    north = finished.sites["north"]
    assert "collaborators.csv" in north
    assert north["collaborators.csv"]["learner"].isin(["north", "south"]).all()
    with pytest.raises(KeyError, match=r"there is: answers\.csv, collaborators\.csv"):
        north["theta.csv"]
    assert sorted(finished.sites) == ["north", "south"]


def test_new_rows_are_predicted_by_the_center(finished: cs.Run, tmp_path: Path) -> None:
    rows = regression(9, 5)
    found = finished.predict(rows)
    assert len(found) == 5
    rows.to_csv(tmp_path / "rows.csv", index=False)
    pd.testing.assert_frame_equal(finished.predict(tmp_path / "rows.csv"), found)
    assert list(finished.predict(rows, learner="north")) == ["entity", "prediction"]
    with pytest.raises(cs.DataError, match="there is no column 'b'"):
        finished.predict(rows.drop(columns="b"))
    with pytest.raises(cs.ConfigError, match="unknown key 'lerner'"):
        finished.predict(rows, lerner="north")


def test_saved_results_are_those_of_the_command(finished: cs.Run, tmp_path: Path) -> None:
    path = finished.save(tmp_path)
    assert path == tmp_path / "sec-own-data" / finished.path.name
    again = cs.load(path)
    assert again.metrics == finished.metrics
    assert cs.load(tmp_path / "sec-own-data-1").path == path
    assert again._repr_html_() == finished._repr_html_()
    with pytest.raises(cs.ResultsError, match="exists already"):
        finished.save(tmp_path)
    with pytest.raises(cs.ResultsError, match="there is no results directory"):
        cs.load(tmp_path / "elsewhere")


def test_results_without_a_directory_live_as_long_as_the_run() -> None:
    settings, frames, more = PROTOCOLS["sec"]
    run = cs.run(settings, data=frames, progress=False, **more)
    path = run.path
    assert (path / "report.html").is_file()
    del run
    assert not path.exists()


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_page_that_is_drawn_later_is_that_of_the_run(
    protocol: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("server.app.figures", server.figures.figures)  # which `quick` leaves out
    settings, frames, more = PROTOCOLS[protocol]
    path = cs.run(settings, data=frames, progress=False, output_dir=tmp_path, **more).path

    def page() -> dict[str, bytes]:
        return {str(each): each.read_bytes() for each in (*path.glob("report.*"), *path.glob("figures/*"))}

    drawn = page()
    report = {**json.loads(drawn[str(path / "report.json")]), "figures": []}
    (path / "report.json").write_text(json.dumps(report))
    (path / "report.html").unlink()
    shutil.rmtree(path / "figures")
    again = cs.load(path)
    assert not (path / "report.html").exists()
    assert len(again.figures) == len(again.report.figures) > 0
    assert page() == drawn


def test_figures_without_matplotlib_say_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    settings, frames, more = PROTOCOLS["sec"]
    run = cs.run(settings, data=frames, progress=False, **more)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(cs.ConfigError, match=r"needs matplotlib: pip install 'consilience\[report\]'"):
        _ = run.figures
    assert "<iframe" in run._repr_html_()


def test_a_run_by_sites_predicts_by_a_run() -> None:
    settings, frames, more = PROTOCOLS["gp"]
    learned = cs.run(settings, data=frames, progress=False, **more)
    with pytest.raises(cs.ConfigError, match="predicts by its sites"):
        learned.predict(regression(5, 4))
    predicted = cs.run("predict", from_=learned, data=more["queries"], progress=False)
    np.testing.assert_array_equal(predicted.arrays["mean"], learned.arrays["mean"])


def test_sites_predict_new_rows_by_the_models_that_they_have_kept() -> None:
    settings, frames, more = PROTOCOLS["residual"]
    learned = cs.run(settings, data=frames, progress=False, **more)
    new = {name: frame[frame["id"].isin(frames["bank"]["id"][:5])] for name, frame in frames.items()}
    predicted = cs.run("predict", from_=learned, data=new, progress=False)
    assert predicted.metrics["n_predicted"] == 5


def test_the_command_takes_paths_and_functions_as_well(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _, frames, _ = PROTOCOLS["sec"]
    folder = folder_of(frames, tmp_path / "data")
    monkeypatch.chdir(tmp_path)
    metrics = []
    for data in ("data", "north=data/north.csv 'south=data/south.csv'", f"{__name__}:two_clinics"):
        arguments = ["--protocol", "sec", "--data", data, "--set", "target=y", "--set", "sec.candidates=lr", "--quiet"]
        done = CliRunner().invoke(cli.app, ["run", *arguments])
        assert done.exit_code == 0, done.stderr
        metrics.append(cs.load(done.stdout.rpartition("results: ")[2].strip()).metrics)
    assert metrics[0] == metrics[1] == metrics[2]
    assert folder.is_dir()


def test_a_run_that_is_refused_ends_with_one_line_and_exit_code_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(cli.app, ["run", "bc3e-wine", "--set", "max-payload-mb=0.0001"])
    assert done.exit_code == 1
    [line] = done.stderr.splitlines()
    assert line.startswith("round 1: 0 of 2 sites answered")


def test_quiet_prints_the_result_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(cli.app, ["run", "bc3e-wine", "--quiet", "--set", "bc3e.max-rounds=2"])
    assert done.exit_code == 0
    assert done.stderr == ""
    assert "round" not in done.stdout.partition("metric")[0]
    assert "majority vote" in done.stdout
    assert (Path(done.stdout.rpartition("results: ")[2].strip()) / "report.html").is_file()


def two_clinics(place: int, n_sites: int) -> pd.DataFrame:
    """Rows of a site that has a name."""
    return regression(place + 1)


two_clinics.sites = ("north", "south")  # type: ignore[attr-defined]


def test_the_same_frames_resume_an_interrupted_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings, frames, more = PROTOCOLS["bc3e"]
    whole = cs.run(settings, data=frames, progress=False, **more)
    from server import app

    monkeypatch.setattr(app, "evaluate", interrupted)
    with pytest.raises(KeyboardInterrupt):
        cs.run(settings, data=frames, progress=False, output_dir=tmp_path, **more)
    monkeypatch.undo()
    [partial] = tmp_path.glob("*/.*.partial")
    resume = {"resume_from": partial, "output_dir": tmp_path, "progress": False}
    with pytest.raises(cs.CheckpointError):
        cs.run(settings, data={**frames, "south": labels(5)}, **resume, **more)
    resumed = cs.run(settings, data={name: frame.copy() for name, frame in frames.items()}, **resume, **more)
    assert resumed.metrics == whole.metrics
    np.testing.assert_array_equal(resumed.arrays["alpha"], whole.arrays["alpha"])


def interrupted(*_: Any) -> None:
    raise KeyboardInterrupt


def test_labels_and_test_rows_of_the_center(tmp_path: Path) -> None:
    settings, frames, _ = PROTOCOLS["residual"]
    outcomes = frames.pop("town") if "town" in frames else parts(1)["town"]
    learned, tested = outcomes.iloc[:60], outcomes.iloc[60:]
    by_frame = cs.run(settings, data=frames, labels=learned, test=tested, target="y", id="id", progress=False)
    folder = folder_of({**frames, "_labels": learned, "_test": tested}, tmp_path / "data")
    by_file = cs.run(settings, data=folder, target="y", id="id", progress=False)
    assert by_frame.metrics == by_file.metrics
    assert by_frame.metrics["n_test"] == 20


def load_of(place: int, n_sites: int) -> pd.DataFrame:
    """Rows of a site, by its place."""
    assert n_sites == 3
    return regression(place)


def test_a_function_is_called_for_every_site() -> None:
    settings, _, more = PROTOCOLS["sec"]
    named = cs.run(settings, data=load_of, sites=3, progress=False, **more)
    text = cs.run(settings, data=f"{__name__}:load_of", sites=3, progress=False, **more)
    inner = cs.run(settings, data=lambda place, n: load_of(place, n), sites=3, progress=False, **more)
    assert named.report.sites == ["site-0", "site-1", "site-2"]
    assert named.metrics == text.metrics == inner.metrics
    assert f"--data {__name__}:load_of" in named.report.shorthand
    with pytest.raises(cs.ConfigError, match="does not say for how many sites it has data; set sites"):
        cs.run(settings, data=load_of, progress=False, **more)
    with pytest.raises(cs.ConfigError, match="say for how many sites with sites="):
        cs.run(settings, data=lambda place, n: load_of(place, n), progress=False, **more)


def test_a_scenario_with_settings() -> None:
    run = cs.run("bc3e-wine", cs.BC3E(max_rounds=2), sites=3, seed=1, progress=False)
    assert (run.report.sites, run.report.config["bc3e.max-rounds"]) == (["site-0", "site-1", "site-2"], 2)
    with pytest.raises(cs.ScenarioError, match="unknown scenario 'bc3e-win'"):
        cs.run("bc3e-win")


def test_a_setting_that_a_table_sets_itself_is_refused_even_at_its_default() -> None:
    with pytest.raises(cs.ScenarioError, match=r"gp\.gate is set by the rows of gp-protein"):
        cs.run("gp-protein", cs.GP(gate=cs.GP().gate), progress=False)


def test_an_error_has_no_chain(capsys: pytest.CaptureFixture[str]) -> None:
    settings, frames, _ = PROTOCOLS["sec"]
    with pytest.raises(cs.DataError, match="north, south: there is no column 'z'; it has 'a', 'b', 'y'") as caught:
        cs.run(settings, data=frames, target="z", progress=False)
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None
    assert len(caught.traceback) == 2, "the call, and where it is refused"
    assert capsys.readouterr().err == "", "nothing had started"


def test_frames_for_flower_resume_nothing(tmp_path: Path) -> None:
    settings, frames, more = PROTOCOLS["sec"]
    with pytest.raises(cs.ConfigError, match="cannot resume another"):
        cs.run(settings, data=frames, engine="flower", resume_from=tmp_path, **more)


def test_flowers_log_is_not_printed(capsys: pytest.CaptureFixture[str]) -> None:
    settings, frames, more = PROTOCOLS["sec"]
    cs.run(settings, data=frames, **more)
    printed = capsys.readouterr()
    assert (printed.out, printed.err) == ("", "")


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_check_says_what_would_leave(protocol: str, tmp_path: Path) -> None:
    settings, frames, more = PROTOCOLS[protocol]
    name, frame = next(iter(frames.items()))
    keys = {key: value for key, value in more.items() if key not in ("queries", "target") or "y" in frame}
    keys.pop("queries", None)
    found = cs.check(frame, settings, **keys)
    folder = folder_of(frames, tmp_path / "data")
    by_path = cs.check(folder / f"{name}.csv", settings, **keys)
    assert found.lines[1:] == by_path.lines[1:]
    assert "What never leaves this site" in found.text
    assert found._repr_html_().startswith("<pre")
    if protocol != "residual":
        for several in (frames, folder, list(frames.values())):
            assert cs.check(several, settings, **keys).text.count("What would be used") == 2
        first = frame.columns[0]
        others = {"north": frame, "south": frame.rename(columns={first: f"{first}s"})}
        if protocol != "bc3e":
            with pytest.raises(cs.DataError, match=f"south: there is no column '{first}'"):
                cs.check(others, settings, **keys)
    with pytest.raises(cs.ConfigError, match="there is no setting 'tarket'; did you mean target"):
        cs.check(frame, settings, tarket="y")
