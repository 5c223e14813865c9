"""Commands that repeat a run: Flower's, and the shorter one of ``consilience``."""

from __future__ import annotations

import shlex
from collections.abc import Mapping

from common.data_places import GIVEN_IN_PYTHON
from common.settings import SettingError, to_toml
from common.value_ranges import Value
from protocols.settings import declared

_OPTIONS = ("protocol", "data", "output-dir")
"""Keys for which ``consilience run`` has an option."""


def settings_of(config: Mapping[str, Value]) -> dict[str, Value]:
    """Return the keys that differ from their defaults, without the directory of an interrupted run.

    Examples
    --------
    >>> settings_of({"seed": 3, "min-sites": 1})
    {'seed': 3}
    """
    defaults = declared()
    return {
        key: value
        for key, value in config.items()
        if key in defaults and value != defaults[key] and key != "resume-from"
    }


def from_python(config: Mapping[str, Value]) -> bool:
    """Whether a run has data that were given in Python, which no command can name."""
    return any(str(value).startswith(GIVEN_IN_PYTHON) for value in config.values())


def flwr_command(config: Mapping[str, Value], n_sites: int) -> str:
    """Return the ``flwr`` command that repeats a run, to be typed in the folder of consilience; empty if none does.

    Parameters
    ----------
    config : Mapping
        Run configuration.
    n_sites : int
        Number of simulated sites; 0: the sites are real, and Flower's configuration names their federation.

    Examples
    --------
    >>> flwr_command({"seed": 3, "min-sites": 2}, n_sites=0)
    'flwr run . --stream --run-config seed=3 --run-config min-sites=2'
    """
    if from_python(config):
        return ""
    words = ["flwr", "run", ".", "--stream"]
    for key, value in settings_of(config).items():
        try:
            words += ["--run-config", to_toml({key: value})]
        except SettingError:  # such a value can be given in a file only
            words += ["--run-config", f"FILE.toml-with-{key}"]
    if n_sites:
        words += ["--federation-config", f"num-supernodes={n_sites} client-resources-num-cpus=1"]
    return shlex.join(words)


def consilience_command(config: Mapping[str, Value], n_sites: int) -> str:
    """Return the ``consilience`` command that repeats a run; empty for real sites (0), whose runs ``flwr`` starts.

    Examples
    --------
    >>> consilience_command({"scenario": "wine", "seed": 3}, n_sites=50)
    'consilience run wine --sites 50 --set seed=3'
    """
    if not n_sites or from_python(config):
        return ""
    words = ["consilience", "run"]
    if not config.get("protocol"):
        words += [str(config["scenario"]), "--sites", str(n_sites)]
    settings = settings_of(config)
    for key in _OPTIONS:
        words += [f"--{key}", str(settings[key])] if key in settings else []
    for key, value in settings.items():
        if key in ("scenario", *_OPTIONS):
            continue
        words += ["--set", f"{key}={str(value).lower() if isinstance(value, bool) else value}"]
    return shlex.join(words)


def broken_over_lines(command: str) -> str:
    r"""Return a command with one option a line, as a shell reads it.

    Examples
    --------
    >>> print(broken_over_lines("flwr run . --stream"))
    flwr run . \
        --stream
    """
    words = shlex.split(command)
    lines: list[list[str]] = []
    for word in words:
        if word.startswith("--") or not lines:
            lines.append([word])
        else:
            lines[-1].append(word)
    return " \\\n    ".join(shlex.join(line) for line in lines)
