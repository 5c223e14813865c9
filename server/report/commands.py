"""The commands that repeat a run: Flower's own, and the same in short."""

from __future__ import annotations

import shlex
from collections.abc import Mapping

from common.settings import SettingError, Value, to_toml
from protocols.settings import declared

_OPTIONS = ("protocol", "data", "output-dir")
"""Keys for which `consilience run` has an argument of its own."""


def changed(config: Mapping[str, Value]) -> dict[str, Value]:
    """What the run configuration sets otherwise than pyproject.toml does, but for an interrupted run's directory."""
    defaults = declared()
    return {
        key: value
        for key, value in config.items()
        if key in defaults and value != defaults[key] and key != "resume-from"
    }


def flwr_command(config: Mapping[str, Value], n_sites: int) -> str:
    """What to type, in an app's folder, to do this run (again), with `n_sites` simulated sites.

    None (0): they are real, and their federation is the one that the user's Flower configuration names first.
    """
    words = ["flwr", "run", ".", "--stream"]
    for key, value in changed(config).items():
        try:
            words += ["--run-config", to_toml({key: value})]
        except SettingError:  # it came in a file, and has to again
            words += ["--run-config", f"FILE.toml-with-{key}"]
    if n_sites:
        words += ["--federation-config", f"num-supernodes={n_sites} client-resources-num-cpus=1"]
    return shlex.join(words)


def consilience_command(config: Mapping[str, Value], n_sites: int) -> str:
    """The same as a ``consilience`` command; empty where real sites took part (0), who started it with ``flwr``."""
    if not n_sites:
        return ""
    words = ["consilience", "run"]
    if not config.get("protocol"):
        words += [str(config["scenario"]), "--sites", str(n_sites)]
    settings = changed(config)
    for key in _OPTIONS:
        words += [f"--{key}", str(settings[key])] if key in settings else []
    for key, value in settings.items():
        if key in ("scenario", *_OPTIONS):
            continue
        words += ["--set", f"{key}={str(value).lower() if isinstance(value, bool) else value}"]
    return shlex.join(words)


def broken_over_lines(command: str) -> str:
    """A command with an option a line, as a shell reads it."""
    words = shlex.split(command)
    lines: list[list[str]] = []
    for word in words:
        if word.startswith("--") or not lines:
            lines.append([word])
        else:
            lines[-1].append(word)
    return " \\\n    ".join(shlex.join(line) for line in lines)
