"""The command: what it lists, checks, shows and refuses; how it calls Flower. No process is started."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

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
from consilience.processes import Interrupted
from consilience.run_log import Transcript, round_of
from consilience.run_request import RunRequest, simulated_run
from scenarios.registry import scenarios

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
        (["--set", "target=a'b\"c"], ["target", "both"]),
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
    result = RUNNER.invoke(cli.app, ["run"])
    assert (result.exit_code, result.stderr) == (1, "seed must not be negative\n")


def test_a_run_that_flower_did_not_start_fails_with_flowers_words(monkeypatch):
    ended(monkeypatch, status="", details="Connection refused")
    result = RUNNER.invoke(cli.app, ["run"])
    assert result.exit_code == 1
    assert "Connection refused" in result.stderr


@pytest.mark.parametrize(("error", "code"), [(Interrupted(2), 130), (Interrupted(15), 143), (LaunchError("no"), 1)])
def test_the_exit_code_says_what_ended_the_run(monkeypatch, error, code):
    def run(*_args):
        raise error

    monkeypatch.setattr(command, "launch", run)
    assert RUNNER.invoke(cli.app, ["run"]).exit_code == code


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
        ("bc3e", "id,class_a,b", "allow-single-model=true", "because allow-single-model is set"),
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
