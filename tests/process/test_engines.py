"""One run by each engine: in this process, by Flower's simulation engine, from Python. The results are equal."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from consilience.local_engine import engine
from protocols.settings import declared
from tests.process.processes import APP, FlowerHome, flwr_run, kill_serverapp, start_run
from tests.support.documentation import blocks
from tests.support.engines import SHORT_RUNS, assert_same_run
from tests.support.parameters import few
from tests.support.runs import make_grid, run_over

CONSILIENCE = [sys.executable, "-m", "consilience"]


def consilience(*arguments: str, cwd: Path, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*CONSILIENCE, *arguments], cwd=cwd, env=env, capture_output=True, text=True, timeout=300, check=False
    )


def printed_results(text: str) -> Path:
    """The results directory that a command has named."""
    [line] = re.findall(r"results: (/\S+)$", text, re.M)[-1:]
    return Path(line)


def makes_run(folder: Path, *more: str) -> Path:
    """Results of the first command of the README, as `make run` types it, and of what is added to it."""
    [recipe] = re.findall(r"^run:.*\n\t(.*)$", (APP / "Makefile").read_text(encoding="utf-8"), re.M)
    program, *arguments = recipe.replace("$(BIN)/", "").split()
    assert program == "consilience"
    done = consilience(*arguments, *more, cwd=folder)
    assert done.returncode == 0, done.stdout + done.stderr
    return printed_results(done.stdout)


@pytest.mark.parametrize("rounds", few([3, None]), ids=["three rounds", "as it is typed"])
def test_what_the_readme_types_first_gives_one_result(flower: FlowerHome, tmp_path: Path, rounds: int | None) -> None:
    """Flower's engine takes a minute or more for all rounds."""
    in_process = makes_run(tmp_path, *(["--set", f"bc3e.max-rounds={rounds}"] if rounds else []))
    page = [block for block in blocks("README.md") if block.language in ("python", "sh")]
    assert page[0].text.startswith("make run")
    env = {**os.environ, **flower.env}
    for language, name in (("sh", "flwr run ."), ("python", "cs.run(")):
        text = next(block.text for block in page if block.language == language and name in block.text)
        folder = tmp_path / language
        folder.mkdir()
        if language == "sh":
            most = f" bc3e.max-rounds={rounds}" if rounds else ""
            output = f"--run-config 'output-dir=\"{folder}\"{most}'"
            command = ["bash", "-ec", text.replace("flwr run .", f"flwr run {APP} {output}")]
        else:
            if rounds:
                text = text.replace('cs.run("bc3e-wine")', f'cs.run("bc3e-wine", cs.BC3E(max_rounds={rounds}))')
            command = [sys.executable, "-c", text + f"\nprint('results:', run.save({str(folder)!r}))"]
        done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, timeout=300, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        assert_same_run(printed_results(done.stdout), in_process)


# -- Flower's engine beside the local one -----------------------------------------------------------------------------


def simulated(flower: FlowerHome, folder: Path, settings: dict[str, Any], sites: int) -> Path:
    """Results of a run by Flower's engine."""
    outcome = flwr_run(APP, {**settings, "output-dir": str(folder)}, sites, flower.env)
    assert outcome.completed, outcome.log
    assert outcome.results is not None
    return outcome.results


@pytest.mark.slow
@pytest.mark.parametrize("name", SHORT_RUNS)
def test_both_engines_give_the_same_result(flower: FlowerHome, tmp_path: Path, name: str) -> None:
    sites, settings = SHORT_RUNS[name]
    local = engine.run({**settings, "output-dir": str(tmp_path / "local")}, sites)
    assert_same_run(simulated(flower, tmp_path / "flower", settings, sites), local)


MANY_ROUNDS: dict[str, Any] = {"bc3e.accelerate": False, "repetitions": 2}


@pytest.mark.slow
def test_a_run_of_the_local_engine_is_resumed_by_flowers(flower: FlowerHome, tmp_path: Path) -> None:
    config = {**declared(), **MANY_ROUNDS, "output-dir": str(tmp_path)}
    whole = engine.run({**MANY_ROUNDS, "output-dir": str(tmp_path)}, 2)
    grid = make_grid(config, 2)
    grid.stop_after = 5
    with pytest.raises(KeyboardInterrupt):
        run_over(grid, config)
    [partial] = (tmp_path / "bc3e-wine").glob(".*.partial")
    resumed = simulated(flower, tmp_path, {**MANY_ROUNDS, "resume-from": str(partial)}, 2)
    assert_same_run(resumed, whole, ledger=False)


@pytest.mark.slow
def test_a_run_of_flowers_engine_is_resumed_by_the_local_one(flower: FlowerHome, tmp_path: Path) -> None:
    config: dict[str, Any] = {**MANY_ROUNDS, "output-dir": str(tmp_path)}
    run = start_run(APP, config, 2, flower.env, tmp_path / "log")
    try:
        run.wait_for("round   5")
        kill_serverapp(flower.superlink_pid)
        run.wait()
    finally:
        run.end()
    [partial] = (tmp_path / "bc3e-wine").glob(".*.partial")
    resumed = engine.run({**config, "resume-from": str(partial)}, 2)
    assert_same_run(resumed, engine.run(config, 2), ledger=False)


# -- the command ------------------------------------------------------------------------------------------------------

LONG = ("run", "bc3e-wine", "--set", "bc3e.accelerate=false", "--set", "repetitions=2")


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Results of that run, if nobody disturbs it."""
    return engine.run({**MANY_ROUNDS, "output-dir": str(tmp_path_factory.mktemp("whole"))}, 2)


@pytest.fixture
def long_run(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """A run in its third round."""
    process = subprocess.Popen(
        [*CONSILIENCE, *LONG], cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    try:
        assert process.stdout is not None
        for line in process.stdout:
            if line.startswith("round   3"):
                break
        yield process
    finally:
        process.kill()
        process.wait()


@pytest.mark.parametrize(("number", "code"), few([(signal.SIGINT, 130), (signal.SIGTERM, 143)]))
def test_an_interrupted_run_says_how_to_resume_and_goes_on_to_the_same_result(
    long_run: subprocess.Popen[str], tmp_path: Path, whole: Path, number: int, code: int
) -> None:
    long_run.send_signal(number)
    text, _ = long_run.communicate(timeout=60)
    assert long_run.returncode == code
    [how] = re.findall(r"to resume it, type the same with (.*)$", text, re.M)
    resumed = consilience(*LONG, *how.split(), cwd=tmp_path)
    assert "resumed after round" in resumed.stdout
    assert_same_run(printed_results(resumed.stdout), whole, ledger=False)


def test_a_killed_run_leaves_no_half_result_and_goes_on_to_the_same(
    long_run: subprocess.Popen[str], tmp_path: Path, whole: Path
) -> None:
    long_run.kill()
    long_run.wait()
    [partial] = (tmp_path / "results" / "bc3e-wine").iterdir()
    assert not (partial / "report.json").exists()
    resumed = consilience(*LONG, "--set", f"resume-from={partial}", cwd=tmp_path)
    assert "resumed after round" in resumed.stdout, resumed.stderr
    assert_same_run(printed_results(resumed.stdout), whole, ledger=False)


def test_a_run_that_takes_too_long_is_stopped(tmp_path: Path) -> None:
    before = time.monotonic()
    done = consilience("run", "bc3e-wine", "--set", "repetitions=500", "--timeout", "1", cwd=tmp_path)
    assert done.returncode == 1
    assert done.stderr.splitlines() == ["the run took longer than 1 s and was stopped"]
    assert time.monotonic() - before < 60


def test_a_superlink_that_does_not_answer_is_named(tmp_path: Path) -> None:
    done = consilience("run", "bc3e-wine", "--engine", "flower", "--superlink", "9", cwd=tmp_path)
    assert done.returncode == 1
    assert "no SuperLink answers at 127.0.0.1:9" in done.stderr


# -- worker processes -------------------------------------------------------------------------------------------------

ENDLESS = "import time\n\ndef data(place, n_sites):\n    print('working', flush=True)\n    time.sleep(600)\n"


@pytest.mark.parametrize("number", few([signal.SIGKILL, signal.SIGINT]))
def test_workers_end_with_the_run_whatever_they_are_doing(tmp_path: Path, number: int) -> None:
    (tmp_path / "endless.py").write_text(ENDLESS)
    command = [*CONSILIENCE, "run", "--protocol", "bc3e", "--data", "endless:data", "--sites", "2", "--workers", "2"]
    env = {**os.environ, "PYTHONPATH": str(tmp_path)}
    with subprocess.Popen(command, cwd=tmp_path, env=env, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        for line in process.stderr:  # what a worker prints goes there
            if "working" in line:
                break
        workers = psutil.Process(process.pid).children(recursive=True)
        assert len(workers) == 2
        process.send_signal(number)
        _, alive = psutil.wait_procs([psutil.Process(process.pid), *workers], 20)
        assert not alive
