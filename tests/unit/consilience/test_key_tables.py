"""Settings in a file: what `consilience init` writes can be edited and run, and what is typed wins."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
from typer.testing import CliRunner

from common.settings import SettingError
from consilience import cli
from consilience.key_tables import SITES, config_file, default_of, read_config
from consilience.run_request import simulated_run
from protocols import registry
from protocols.settings import RunSettings, run_keys, site_keys

RUNNER = CliRunner()


@pytest.mark.parametrize("protocol", registry.BUILT_IN)
def test_a_new_file_has_every_key_with_its_default(protocol: str, tmp_path: Path) -> None:
    text = config_file(protocol, "")
    assert tomllib.loads(text) == {"protocol": protocol, "data": "data", protocol: {}}
    own = {key for key in run_keys() if key.startswith(f"{protocol}.")}
    every = {*RunSettings.keys(), *own} - {"scenario", "resume-from", "from"}
    (tmp_path / "run.toml").write_text(re.sub(r"^# ([\w-]+ = )", r"\1", text, flags=re.MULTILINE))
    settings, sites = read_config(tmp_path / "run.toml")
    assert (settings.keys(), sites) == (every, 3)
    for key in own:
        assert settings[key] == run_keys()[key].default or run_keys()[key].path


def test_a_new_file_of_a_scenario_runs_it(tmp_path: Path) -> None:
    file = tmp_path / "run.toml"
    done = RUNNER.invoke(cli.app, ["init", "bc3e-wine", "--output", str(file)])
    assert done.exit_code == 0
    request = simulated_run([], {}, None, 9.0, file)
    assert (request.settings["scenario"], request.sites) == ("bc3e-wine", 2)
    again = RUNNER.invoke(cli.app, ["init", "gp", "--output", str(file)])
    assert again.exit_code == 1
    assert "is there already, and is kept" in again.stderr
    unknown = RUNNER.invoke(cli.app, ["init", "gpp", "--output", str(tmp_path / "other.toml")])
    assert unknown.exit_code == 2
    assert not (tmp_path / "other.toml").exists()


def test_what_is_typed_wins(tmp_path: Path) -> None:
    file = tmp_path / "run.toml"
    file.write_text('scenario = "bc3e-wine"\nseed = 3\nrepetitions = 2\nsites = 4\n[bc3e]\nmax-rounds = 5\n')
    request = simulated_run(["seed=7"], {"output-dir": "out"}, None, 9.0, file)
    assert request.sites == 4
    assert {key: request.settings[key] for key in ("seed", "repetitions", "bc3e.max-rounds")} == {
        "seed": 7,
        "repetitions": 2,
        "bc3e.max-rounds": 5,
    }
    assert simulated_run([], {}, 3, 9.0, file).sites == 3
    assert simulated_run([], {"scenario": "bc3e-halfmoon"}, None, 9.0, file).settings["scenario"] == "bc3e-halfmoon"


def test_paths_are_those_of_the_files_folder(tmp_path: Path) -> None:
    file = tmp_path / "run.toml"
    file.write_text('protocol = "gp"\ndata = "sites"\noutput-dir = "/elsewhere"\nlabels = "a/b.csv"\n')
    settings, _ = read_config(file)
    assert settings["data"] == str(tmp_path / "sites")
    assert settings["output-dir"] == "/elsewhere"
    assert settings["labels"] == str(tmp_path / "a/b.csv")
    file.write_text('data = "hospital.rows:load"\n')
    assert read_config(file)[0]["data"] == "hospital.rows:load"
    file.write_text('data = "north=a.csv south=b.csv"\n')
    assert read_config(file)[0]["data"] == f"north={tmp_path / 'a.csv'} south={tmp_path / 'b.csv'}"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("seed = ", "is no TOML file"),
        ("sede = 3", "unknown key 'sede'; did you mean seed?"),
        ("site = 3", "unknown key 'site'; did you mean sites?"),
        ("[gp]\nlandmark = 3", "unknown key 'gp.landmark'; did you mean gp.landmarks?"),
        ('seed = "3"', "seed must be a whole number, got '3'"),
        ("seed = -3", "seed must be 0 or greater, got -3"),
        ("sites = 0", f"{SITES} must be a whole number, 1 or greater, got 0"),
        (None, "cannot be read"),
    ],
)
def test_a_file_that_cannot_be_used_is_one_sentence(tmp_path: Path, text: str | None, words: str) -> None:
    file = tmp_path / "run.toml"
    if text is not None:
        file.write_text(text)
    with pytest.raises(SettingError) as refused:
        read_config(file)
    told = str(refused.value)
    assert told.startswith(f"{file}")
    assert words in told
    assert "\n" not in told


def test_keys_lists_every_key_once_with_its_default() -> None:
    for protocol in registry.BUILT_IN:
        done = RUNNER.invoke(cli.app, ["keys", protocol])
        assert done.exit_code == 0
        listed = [
            line.split()[0] for line in done.stdout.splitlines() if line and not line.startswith(("Keys", "key "))
        ]
        own = {key for key in run_keys() if "." not in key or key.startswith(f"{protocol}.")}
        assert set(listed) == own | set(site_keys(protocol))
    every = RUNNER.invoke(cli.app, ["keys"]).stdout
    for key, each in run_keys().items():
        [line] = [line for line in every.splitlines() if line.startswith(f"{key} ") and each.help.split(";")[0] in line]
        assert default_of(each) in line
        assert each.range in line
    unknown = RUNNER.invoke(cli.app, ["keys", "gpp"])
    assert (unknown.exit_code, unknown.stderr) == (2, "there is no protocol 'gpp'; did you mean gp?\n")
