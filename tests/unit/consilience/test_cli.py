"""The command: what it lists, checks, shows and refuses; how it calls Flower. No process is started."""

from __future__ import annotations

import json
import tomllib
from importlib.metadata import EntryPoint
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from flwr.cli.build import build_fab_from_disk
from typer.testing import CliRunner

import consilience
from common.settings import SettingError
from consilience import cli
from consilience._path import PACKAGES
from consilience.app_folder import stage_app
from consilience.commands import run as command
from consilience.commands.run import how_to_resume
from consilience.flower_programs import LaunchError, environment
from consilience.flower_run import flwr_arguments, parse_status
from consilience.outcome import Outcome
from consilience.processes import Interruption
from consilience.run_log import Transcript, round_of
from consilience.run_request import RunRequest, simulated_run
from protocols import registry
from protocols.settings import run_keys
from scenarios.registry import scenarios
from server.results import ResultsDirectory
from tests.support.sample_report import make

ROOT = Path(__file__).resolve().parents[3]
RUNNER = CliRunner()


@pytest.fixture
def no_launch(monkeypatch):
    """Fails the test if the command would start anything."""

    def start(*_args):
        raise AssertionError("a run was started")

    monkeypatch.setattr(command, "launch", start)


def ended(monkeypatch, **transcript):
    """Let the command believe that a run ended so; the requests it would have run are in the list returned."""
    status, details = transcript.pop("status", "finished:completed"), transcript.pop("details", "")
    requests = []

    def run(request, *_how):
        requests.append(request)
        return Outcome(Transcript(**transcript), status, details)

    monkeypatch.setattr(command, "launch", run)
    return requests


def test_the_version_is_that_of_the_package():
    pyproject = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert consilience.__version__ == pyproject["project"]["version"]
    assert RUNNER.invoke(cli.app, ["--version"]).stdout.strip() == consilience.__version__


def test_list_names_every_scenario_on_a_line_of_its_own():
    result = RUNNER.invoke(cli.app, ["list"])
    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    for scenario in scenarios().values():
        (line,) = [line for line in lines if line.startswith(f"{scenario.name} ")]
        assert scenario.protocol in line
        assert scenario.source in line
        assert scenario.summary in line


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], ["say what to run", "consilience list", "gp"]),
        (["--set", "seed=3"], ["say what to run"]),
        (["bc3e-whine"], ["bc3e-whine", "bc3e-wine"]),
        (["--set", "bc3e.maxrounds=3"], ["bc3e.maxrounds", "did you mean", "bc3e.max-rounds"]),
        (["--set", "zzzz=3"], ["zzzz", "there are", "round-timeout"]),
        (["--set", "seed=1.5"], ["seed takes a whole number", "1.5"]),
        (["--set", "round-timeout=inf"], ["round-timeout takes a finite number", "inf"]),
        (["--set", "bc3e.accelerate=maybe"], ["bc3e.accelerate takes true or false", "maybe"]),
        (["--set", "seed"], ["key=value", "seed"]),
        (["--set", "seed=1", "--set", "seed=2"], ["seed is set twice"]),
        (["bc3e-wine", "--set", "scenario=bc3e-wine"], ["scenario is given twice"]),
        (["--protocol", "bc3e"], ["protocol without data"]),
        (["--data", "somewhere"], ["data without protocol"]),
        (["bc3e-wine", "--protocol", "bc3e", "--data", "x"], ["not both"]),
        (["--protocol", "bc3e", "--data", "/does/not/exist"], ["/does/not/exist"]),
        (["bc3e-wine", "--set", "target=a'b\"c"], ["target", "both"]),
        (["bc3e-wine", "--superlink", "39091"], ["--superlink is for --engine flower"]),
        (["bc3e-wine", "--engine", "flower", "--workers", "2"], ["--workers is for --engine local"]),
    ],
)
def test_run_refuses_in_one_line_before_anything_starts(no_launch, arguments, words):
    result = RUNNER.invoke(cli.app, ["run", *arguments])
    assert result.exit_code == 2
    assert len(result.stderr.splitlines()) == 1
    assert all(word in result.stderr for word in words)


def test_a_plan_has_absolute_paths_and_the_scenarios_sites(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    request = simulated_run(["labels=old/run", "seed=4"], {"scenario": "bc3e-wine", "data": None}, None, 60.0)
    assert request.settings == {
        "scenario": "bc3e-wine",
        "seed": 4,
        "labels": str(tmp_path / "old/run"),
        "output-dir": str(tmp_path / "results"),
    }
    assert request.sites == scenarios()["bc3e-wine"].sites
    assert simulated_run([], {"scenario": "bc3e-wine"}, 7, 60.0).sites == 7


def test_own_data_have_as_many_sites_as_files(tmp_path):
    for name in ("a.csv", "b.csv", "c.csv", "_test.csv"):
        (tmp_path / name).write_text("class_x\n0\n1\n")
    options = {"protocol": "bc3e", "data": str(tmp_path)}
    assert simulated_run([], options, None, 60.0).sites == 3
    with pytest.raises(SettingError, match="3 sites, not 2"):
        simulated_run([], options, 2, 60.0)


def test_the_flwr_command_is_the_one_a_user_would_type():
    request = RunRequest({"scenario": "bc3e-wine", "bc3e.max-rounds": 5}, 20, 60.0)
    assert flwr_arguments(".", request) == [
        *("run", ".", "local", "--stream"),
        *("--run-config", 'scenario="bc3e-wine" bc3e.max-rounds=5'),
        *("--federation-config", "num-supernodes=20 client-resources-num-cpus=1"),
    ]


@pytest.mark.parametrize(("scenario", "one"), [("bc3e-wine", True), ("sec-simulation1", False)])
def test_one_process_of_flowers_engine_answers_quick_asks(scenario, one, monkeypatch):
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    request = simulated_run([], {"scenario": scenario}, None, 60.0)
    assert flwr_arguments(".", request)[-1].endswith(" init-args-num-cpus=1") == one
    monkeypatch.setenv("RAY_ADDRESS", "127.0.0.1:6379")  # a cluster has the cores that it has
    assert "init-args" not in flwr_arguments(".", request)[-1]


def test_the_environment_installs_and_sends_nothing(monkeypatch):
    monkeypatch.setenv("no_proxy", "intranet")
    env = environment()
    assert env["FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION"] == "1"
    assert env["FLWR_TELEMETRY_ENABLED"] == "0"
    assert env["no_proxy"] == "intranet,127.0.0.1"


def test_the_staged_app_is_one_that_flower_accepts_and_holds_code_only(tmp_path):
    stage_app(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {*PACKAGES, "consilience", "pyproject.toml", "LICENSE"}
    assert not list(tmp_path.rglob("__pycache__"))
    assert len(build_fab_from_disk(tmp_path)) < 5_000_000  # half of what Flower accepts


@pytest.mark.parametrize("status", ["finished:completed", "finished:failed", "running"])
def test_the_status_is_read_from_what_flwr_list_prints(status):
    runs = [
        {"run-id": "11", "status": "finished:stopped", "status-details": "N/A"},
        {"run-id": "12", "status": status, "status-details": "because"},
    ]
    answer = json.dumps({"success": True, "runs": runs})
    assert parse_status(answer, "12") == (status, "because")
    assert parse_status(answer, "11") == ("finished:stopped", "")
    assert parse_status(answer, "13") == ("", "")


@pytest.mark.parametrize("answer", ["", "no JSON", "[]", '{"success": false, "error-message": "gone"}'])
def test_no_status_in_any_other_answer(answer):
    assert parse_status(answer, "12") == ("", "")


def test_a_transcript_takes_note_of_number_results_and_refusal():
    transcript = Transcript()
    transcript.read("Successfully started run 1676")
    transcript.read("\x1b[92mINFO \x1b[0m:      round   3  sites 2/2  bound=-1")
    transcript.read("\x1b[92mINFO \x1b[0m:      results: /a b/c/1676")
    transcript.read("\x1b[91mERROR \x1b[0m:     refused: unknown scenario 'x'")
    assert transcript == Transcript("1676", Path("/a b/c/1676"), "unknown scenario 'x'")


def test_a_round_is_known_by_its_line():
    line = "\x1b[92mINFO \x1b[0m:      round  13  sites 2/2  bound=-434.6 change=1.2e-04  down=1.2 kB  up=3 B  0.13 s"
    assert round_of(line) == (13, "bound=-434.6 change=1.2e-04 down=1.2 kB up=3 B")
    assert round_of("INFO :      round 4: site-1: no answer") is None
    assert round_of("INFO :      resumed after round 4") is None


def test_run_passes_the_plan_on_and_fails_with_the_status_of_the_run(monkeypatch, tmp_path):
    requests = ended(monkeypatch, run_id="7", status="finished:failed", details="exit code 1")
    result = RUNNER.invoke(cli.app, ["run", "bc3e-wine", "--sites", "3", "--output-dir", str(tmp_path)])
    assert result.exit_code == 1
    assert "finished:failed" in result.stderr
    assert "exit code 1" in result.stderr
    assert requests == [RunRequest({"scenario": "bc3e-wine", "output-dir": str(tmp_path)}, 3, 86_400.0)]


def test_a_refusal_is_printed_as_it_is(monkeypatch):
    ended(monkeypatch, run_id="7", status="finished:failed", refused="seed must not be negative")
    result = RUNNER.invoke(cli.app, ["run", "bc3e-wine"])
    assert (result.exit_code, result.stderr) == (1, "seed must not be negative\n")


def test_a_run_that_flower_did_not_start_fails_with_flowers_words(monkeypatch):
    ended(monkeypatch, status="", details="Connection refused")
    result = RUNNER.invoke(cli.app, ["run", "bc3e-wine"])
    assert result.exit_code == 1
    assert "Connection refused" in result.stderr


@pytest.fixture
def finished(tmp_path, monkeypatch):
    """A finished run in the folder of results, and the pages that a browser was asked to open."""
    monkeypatch.chdir(tmp_path)
    directory = ResultsDirectory.open("results", "bc3e-wine", 77)
    path = directory.finish(make(), {"x": np.zeros(1)}, [], {})
    opened = []
    monkeypatch.setattr("webbrowser.open", lambda page: bool(opened.append(page)) or True)
    return SimpleNamespace(path=path, opened=opened)


def test_json_is_the_report_and_nothing_else(monkeypatch, finished):
    ended(monkeypatch, run_id="77", results=finished.path)
    for arguments in (
        ["run", "bc3e-wine", "--json"],
        ["show", "bc3e-wine-1", "--json"],
        ["show", "--latest", "--json"],
    ):
        result = RUNNER.invoke(cli.app, arguments)
        assert result.exit_code == 0, result.stderr
        assert json.loads(result.stdout) == json.loads((finished.path / "report.json").read_text())
    assert not finished.opened


def test_open_opens_the_page(monkeypatch, finished):
    ended(monkeypatch, run_id="77", results=finished.path)
    page = (finished.path / "report.html").as_uri()
    for arguments in (["run", "bc3e-wine", "--open"], ["show", "bc3e-wine", "--open"]):
        assert RUNNER.invoke(cli.app, arguments).exit_code == 0
    assert finished.opened == [page, page]
    (finished.path / "report.html").unlink()
    assert "there is no page" in RUNNER.invoke(cli.app, ["show", "--latest", "--open"]).stderr


def test_every_command_takes_a_short_name(finished):
    shown = RUNNER.invoke(cli.app, ["show", "bc3e-wine-1"])
    assert shown.stdout == RUNNER.invoke(cli.app, ["show", str(finished.path)]).stdout
    assert "short name: bc3e-wine-1\n" in shown.stdout
    assert "is run 1 already" in RUNNER.invoke(cli.app, ["compare", "bc3e-wine-1", "bc3e-wine"]).stderr
    assert str(finished.path) in RUNNER.invoke(cli.app, ["status", "bc3e-wine-1"]).stdout
    assert "there is no results" not in RUNNER.invoke(cli.app, ["ledger", "bc3e-wine-1", "nowhere"]).stderr
    assert "there is no results" not in RUNNER.invoke(cli.app, ["predict", "bc3e-wine-1", "nowhere.csv"]).stderr
    request = simulated_run(["labels=bc3e-wine-1"], {"scenario": "bc3e-wine"}, None, 9.0)
    assert request.settings["labels"] == str(finished.path)
    assert consilience.load("bc3e-wine-1").path == finished.path
    for arguments in (["show"], ["show", "bc3e-wine", "--latest"]):
        assert RUNNER.invoke(cli.app, arguments).exit_code == 2
    absent = RUNNER.invoke(cli.app, ["show", "bc3e-wine-2"])
    assert absent.exit_code == 1
    assert "there is no results directory" in absent.stderr


def test_runs_lists_finished_and_interrupted_runs(finished):
    interrupted = ResultsDirectory.open("results", "gp-synthetic", 5)
    (interrupted.partial / "progress.jsonl").write_text('{"round": 1}\n{"round": 2}\n')
    (finished.path.parent / "6").mkdir()
    (finished.path.parent / "6" / "report.json").write_text("{")
    result = RUNNER.invoke(cli.app, ["runs"])
    assert result.exit_code == 0, result.stderr
    lines = {line.split()[0]: " ".join(line.split()) for line in result.stdout.splitlines()}
    assert lines.keys() == {"run", "bc3e-wine-1", "gp-synthetic", "bc3e-wine"}
    assert f" {make().protocol} {len(make().sites)} " in lines["bc3e-wine-1"]
    assert lines["bc3e-wine-1"].endswith("results/bc3e-wine/77")
    assert "interrupted after round 2" in lines["gp-synthetic"]
    assert "its report.json cannot be read" in lines["bc3e-wine"]
    empty = RUNNER.invoke(cli.app, ["runs", "--output-dir", "nowhere"])
    assert (empty.exit_code, empty.stderr) == (1, "there is no run in nowhere: name another --output-dir\n")


def test_shells_can_complete_the_command():
    result = RUNNER.invoke(cli.app, ["--help"])
    assert "--install-completion" in result.stdout
    assert "--show-completion" in result.stdout


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("run bc3e-w", "bc3e-wine"),
        ("run --protocol c", "coreset"),
        ("run --set gp.kern", "gp.kernel="),
        ("check --protocol s", "sec"),
        ("keys g", "gp"),
    ],
)
def test_a_shell_completes_names(words, expected):
    typed = f"consilience {words}"
    env = {
        "_CONSILIENCE_COMPLETE": "complete_bash",
        "COMP_WORDS": typed,
        "COMP_CWORD": str(len(typed.split()) - 1),
    }
    assert RUNNER.invoke(cli.app, [], env=env, prog_name="consilience").stdout.split() == [expected]


@pytest.mark.parametrize(("error", "code"), [(Interruption(2), 130), (Interruption(15), 143), (LaunchError("no"), 1)])
def test_the_exit_code_says_what_ended_the_run(monkeypatch, error, code):
    def run(*_args):
        raise error

    monkeypatch.setattr(command, "launch", run)
    assert RUNNER.invoke(cli.app, ["run", "bc3e-wine"]).exit_code == code


def test_check_says_what_would_leave(tmp_path):
    file = tmp_path / "site.csv"
    file.write_text("name,class_a,class_b,cluster_x\nu,0,1,2\nv,1,1,0\nw,0,0,1\n")
    result = RUNNER.invoke(cli.app, ["check", str(file), "--protocol", "bc3e", "--set", "id=name"])
    assert result.exit_code == 0
    for word in ("class_a", "cluster_x", "name", "leave"):
        assert word in result.stdout


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (None, ["site.csv"]),
        ("class_a,cluster_x\n0,1\none,0\n", ["site.csv", "class_a", "3"]),
        ("x,y\n0,1\n1,0\n", ["site.csv"]),
    ],
)
def test_check_refuses_a_bad_file_in_one_line(tmp_path, content, words):
    file = tmp_path / "site.csv"
    if content is not None:
        file.write_text(content)
    result = RUNNER.invoke(cli.app, ["check", str(file), "--protocol", "bc3e"])
    assert result.exit_code == 1
    assert len(result.stderr.splitlines()) == 1
    assert all(word in result.stderr for word in words)


@pytest.mark.parametrize(
    ("protocol", "header", "own", "says"),
    [
        ("residual", "id,y,a", "agent=sklearn.tree.ExtraTreeRegressor", "agent: sklearn.tree.ExtraTreeRegressor"),
        ("residual", "id,y,a", "min-leaf=60", "60 rows or more in a leaf"),
        ("residual", "id,a,b", "sealed-only=true", "the site that holds the outcome; they are sent sealed"),
        ("sec", "y,a,b", "candidates=lasso", "lasso: its coefficients"),
        ("sec", "y,a,b", "min-leaf=9", "(9 rows or more in a leaf)"),
        ("bc3e", "id,class_a,b", "allow-single-model=true", "  allow-single-model is set"),
    ],
)
def test_check_takes_what_a_node_says_of_itself(tmp_path, protocol, header, own, says):
    file = tmp_path / "site.csv"
    file.write_text(header + "\n" + "".join(f"{i},{i % 3},{i % 2}\n" for i in range(40)))
    roles = {"target": "y"} if "y" in header.split(",") else {}
    sets = [f"--set={key}={value}" for key, value in roles.items()] + [f"--set={own}"]
    result = RUNNER.invoke(cli.app, ["check", str(file), "--protocol", protocol, *sets])
    assert result.exit_code == 0, result.stderr
    assert says in result.stdout


@pytest.mark.parametrize(
    ("protocol", "own", "words"),
    [
        ("bc3e", "agent=lr", "unknown key 'agent'"),
        ("bc3e", "gp.experts=3", "gp.experts is a key of gp, and this is a run of bc3e; leave it out"),
        ("residual", "agnt=lr", "did you mean agent"),
        ("residual", "min-leaf=few", "min-leaf takes a whole number, not 'few'"),
        ("residual", "min-leaf=0", "min-leaf must be 1 or greater, got 0"),
    ],
)
def test_check_refuses_what_no_node_of_the_protocol_says(tmp_path, protocol, own, words):
    file = tmp_path / "site.csv"
    file.write_text("a\n1\n2\n")
    result = RUNNER.invoke(cli.app, ["check", str(file), "--protocol", protocol, "--set", own])
    assert result.exit_code in (1, 2)
    assert words in result.stderr


def written(folder, **texts):
    for name, text in texts.items():
        (folder / f"{name}.csv").write_text(text)
    return folder


ROWS = "y,a,b\n" + "".join(f"{i},{i % 7},{i % 3}\n" for i in range(40))


def test_check_looks_at_all_files_of_a_folder(tmp_path):
    written(tmp_path, north=ROWS, south=ROWS)
    result = RUNNER.invoke(cli.app, ["check", str(tmp_path), "--protocol", "gp", "--set", "target=y"])
    assert result.exit_code == 0, result.stderr
    assert [line for line in result.stdout.splitlines() if line and line[0] != " "] == [
        "site north",
        "site south",
        "together: the files of 2 sites fit each other",
    ]
    assert result.stdout.count("  What would leave this site") == 2


@pytest.mark.parametrize(
    ("south", "words"),
    [
        (ROWS.replace("a,b", "a,c"), "south.csv: there is no column 'b'; all need the same columns as north.csv"),
        (ROWS.replace("39,", "x,"), "south.csv, line 41, column 'y': 'x' is text where a number belongs"),
    ],
)
def test_check_of_a_folder_says_what_is_wrong_after_what_is_right(tmp_path, south, words):
    written(tmp_path, north=ROWS, south=south)
    result = RUNNER.invoke(cli.app, ["check", str(tmp_path), "--protocol", "gp", "--set", "target=y"])
    assert result.exit_code == 1
    assert "site north" in result.stdout
    assert "together" not in result.stdout
    assert words in result.stderr
    assert len(result.stderr.splitlines()) == 1


def test_check_of_a_folder_wants_entities_that_all_know(tmp_path):
    written(tmp_path, bank="id,y,a\n0001,2,3\n0002,3,4\n", shop="id,b\n1,5\n2,6\n")
    keys = ["--set", "target=y", "--set", "id=id"]
    result = RUNNER.invoke(cli.app, ["check", str(tmp_path), "--protocol", "residual", *keys])
    assert result.exit_code == 1
    assert "no entity is common to all of bank, shop: is 'id' the same column, written alike" in result.stderr
    assert "together" not in result.stdout


def test_check_of_a_folder_lets_one_file_hold_the_outcome(tmp_path):
    """In a simulation a name may be another file's column."""
    written(tmp_path, bank="id,y,a\n1,2,3\n2,3,4\n", shop="id,b\n1,5\n2,6\n")
    sets = ["--set", "target=y", "--set", "id=id"]
    result = RUNNER.invoke(cli.app, ["check", str(tmp_path), "--protocol", "residual", *sets])
    assert result.exit_code == 0, result.stderr
    result = RUNNER.invoke(cli.app, ["check", str(tmp_path), "--protocol", "residual", "--set", "target=z"])
    assert result.exit_code == 1
    assert "no file has the column 'z' that target names" in result.stderr


@pytest.mark.parametrize(
    "arguments", [["list"], ["keys"], ["check", "x.csv", "--protocol", "gp"], ["run", "bc3e-wine"]]
)
def test_a_protocol_that_is_declared_wrongly_is_one_sentence_in_every_command(monkeypatch, arguments):
    point = EntryPoint("quantile", "company.quantiles", registry.GROUP)
    monkeypatch.setattr(registry, "entry_points", lambda group: [point])
    caches = (registry._packages, run_keys)
    for cached in caches:
        cached.cache_clear()
    try:
        result = RUNNER.invoke(cli.app, arguments)
    finally:
        for cached in caches:
            cached.cache_clear()
    assert result.exit_code in (1, 2)
    assert len(result.stderr.splitlines()) == 1
    assert "quantile = 'company.quantiles': the module's last part must be the protocol's name" in result.stderr


def test_check_knows_which_protocols_it_can_check(tmp_path):
    result = RUNNER.invoke(cli.app, ["check", str(tmp_path), "--protocol", "fedavg"])
    assert result.exit_code == 2
    assert "bc3e" in result.stderr


def test_show_refuses_what_is_no_results_directory(tmp_path):
    result = RUNNER.invoke(cli.app, ["show", str(tmp_path / "nothing")])
    assert result.exit_code == 1
    assert "nothing" in result.stderr
    assert "Traceback" not in result.output


def test_an_interrupted_run_says_how_to_resume_it(tmp_path: Path) -> None:
    """Only a run that left a checkpoint does."""
    request = RunRequest({"scenario": "bc3e-wine", "output-dir": str(tmp_path)}, 2, 60.0)
    assert how_to_resume(request, "") == ""
    assert how_to_resume(request, "7") == ""
    (tmp_path / "bc3e-wine" / ".7.partial").mkdir(parents=True)
    assert how_to_resume(request, "7").endswith(f"--set resume-from={tmp_path / 'bc3e-wine' / '7'}")
    (tmp_path / "bc3e-wine" / ".7.partial").rename(tmp_path / "bc3e-wine" / "7")
    (tmp_path / "bc3e-wine" / "7" / "report.json").touch()
    assert how_to_resume(request, "7") == f", but had completed: {tmp_path / 'bc3e-wine' / '7'}"
