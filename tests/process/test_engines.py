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

import pytest

from tests.process.processes import APP, FlowerHome
from tests.support.documentation import blocks
from tests.support.engines import assert_same_run

CONSILIENCE = [sys.executable, "-m", "consilience"]


def consilience(*arguments: str, cwd: Path, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*CONSILIENCE, *arguments], cwd=cwd, env=env, capture_output=True, text=True, timeout=300, check=False
    )


def printed_results(text: str) -> Path:
    """The results directory that a command has named."""
    [line] = re.findall(r"results: (/\S+)$", text, re.M)[-1:]
    return Path(line)


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Results of the first command of the README, as `make run` types it."""
    [recipe] = re.findall(r"^run:.*\n\t(.*)$", (APP / "Makefile").read_text(encoding="utf-8"), re.M)
    program, *arguments = recipe.replace("$(BIN)/", "").split()
    assert program == "consilience"
    done = consilience(*arguments, cwd=tmp_path_factory.mktemp("local"))
    assert done.returncode == 0, done.stdout + done.stderr
    return printed_results(done.stdout)


def test_what_the_readme_types_first_gives_one_result(local: Path, flower: FlowerHome, tmp_path: Path) -> None:
    page = [block for block in blocks("README.md") if block.language in ("python", "sh")]
    assert page[0].text.startswith("make run")
    env = {**os.environ, **flower.env}
    for language, name in (("sh", "flwr run ."), ("python", "cs.run(")):
        text = next(block.text for block in page if block.language == language and name in block.text)
        folder = tmp_path / language
        folder.mkdir()
        if language == "sh":
            output = f"--run-config 'output-dir=\"{folder}\"'"
            command = ["bash", "-ec", text.replace("flwr run .", f"flwr run {APP} {output}")]
        else:
            command = [sys.executable, "-c", text + f"\nprint('results:', run.save({str(folder)!r}))"]
        done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, timeout=300, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        assert_same_run(printed_results(done.stdout), local)


def test_a_run_that_is_refused_ends_with_one_line_and_exit_code_one(tmp_path: Path) -> None:
    done = consilience("run", "bc3e-wine", "--set", "max-payload-mb=0.0001", cwd=tmp_path)
    assert done.returncode == 1
    [line] = done.stderr.splitlines()
    assert line.startswith("round 1: 0 of 2 sites answered")


def test_quiet_prints_the_result_only(tmp_path: Path) -> None:
    done = consilience("run", "bc3e-wine", "--quiet", "--set", "bc3e.max-rounds=2", cwd=tmp_path)
    assert done.returncode == 0
    assert done.stderr == ""
    assert "round" not in done.stdout.partition("metric")[0]
    assert "majority vote" in done.stdout
    assert (printed_results(done.stdout) / "report.html").is_file()


LONG = ("run", "bc3e-wine", "--set", "bc3e.accelerate=false", "--set", "repetitions=3")


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


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_an_interrupted_run_says_how_to_resume_and_goes_on_to_the_same_result(
    long_run: subprocess.Popen[str], tmp_path: Path, number: int, code: int
) -> None:
    long_run.send_signal(number)
    text, _ = long_run.communicate(timeout=60)
    assert long_run.returncode == code
    [how] = re.findall(r"to resume it, type the same with (.*)$", text, re.M)
    resumed, whole = (consilience(*LONG, *extra, cwd=tmp_path) for extra in (how.split(), ()))
    assert "resumed after round" in resumed.stdout
    assert_same_run(printed_results(resumed.stdout), printed_results(whole.stdout), ledger=False)


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
