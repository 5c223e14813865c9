"""The commands of the pages are valid: each program parses its own."""

from __future__ import annotations

import ast
import importlib.util
import json
import re
import shlex
import tomllib
from collections.abc import Iterator, Mapping
from configparser import ConfigParser
from dataclasses import dataclass
from functools import cache
from typing import Any

import pytest
import typer
from flwr.cli.app import app as flwr_app
from flwr.common.config import parse_config_args

from common.results import PREDICT
from common.settings import Setting, Settings
from consilience import cli
from consilience.assignments import parse
from protocols import registry
from protocols.registry import names as protocol_names
from protocols.settings import checked, declared, run_keys, site_keys
from scenarios.registry import ScenarioError, scenarios, select_cells
from tests.docs.test_pages import NEW, known_keys
from tests.support.documentation import ROOT, Block, blocks, pages, quoted

OF_OTHERS = {
    *("cd", "echo", "env", "export", "head", "mkdir", "mv", "openssl", "pip", "pre-commit", "ssh-keygen"),
    *("flower-superlink", "ray"),
}
"""Commands of others, which are not parsed."""
_IN_SENTENCES = re.compile(
    r"(?:make \S+|python3? -m .+|(?:consilience \S+|flwr run|flower-supernode) .*(?<= )[^- ]\S*)"
)
"""A whole command with arguments; a shorter text only mentions a command."""
_ENVIRONMENT = re.compile(r"[A-Z_]+=\S*")


@dataclass(frozen=True)
class Command:
    """One command of a block, split as by a shell."""

    block: Block
    words: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.block}: {shlex.join(self.words)}"


def commands(block: Block) -> Iterator[Command]:
    """Yield the commands of a block; a quotation may have several lines."""
    pending = ""
    for line in block.text.replace("\\\n", " ").splitlines():
        pending = f"{pending}\n{line}" if pending else line
        try:
            words = list(_words(pending))
        except ValueError:  # a quotation that has not ended
            continue
        pending = ""
        for each in _split(words):
            yield Command(block, tuple(each))
    assert not pending, f"{block}: a quotation does not end"


def _words(line: str) -> Iterator[str]:
    lexer = shlex.shlex(line, posix=True, punctuation_chars=";&|")
    lexer.whitespace_split = True
    return iter(list(lexer))


def _split(words: list[str]) -> Iterator[list[str]]:
    command: list[str] = []
    for word in [*words, ";"]:
        if word and set(word) <= set(";&|"):
            while command and _ENVIRONMENT.fullmatch(command[0]):
                command = command[1:]
            if command:
                yield command
            command = []
        else:
            command.append(word)


def in_sentences(page: str) -> list[Command]:
    """Return whole commands in a page's sentences and tables."""
    texts = [text for text in quoted(page) if _IN_SENTENCES.fullmatch(text) and "..." not in text]
    return [command for text in texts for command in commands(Block(page, 0, "sh", text))]


@cache
def all_commands() -> tuple[Command, ...]:
    """Return the commands of all pages, in blocks and in sentences."""
    every: list[Command] = []
    for page in pages():
        shell = [block for block in blocks(page) if block.language == "sh"]
        every += [command for block in shell for command in commands(block)] + in_sentences(page)
    return tuple(every)


def commands_of(name: str) -> list[Command]:
    """Return the commands of a program, except those about the protocol of docs/extend.md."""
    every = [each for each in all_commands() if each.words[0] == name]
    assert every
    return [each for each in every if NEW not in " ".join(each.words)]


# -- commands ----------------------------------------------------------------------------------------------------


def test_every_command_is_known() -> None:
    parsed_here = {".", "consilience", "flower-supernode", "flwr", "make", "python", "python3"}
    unknown = [str(each) for each in all_commands() if each.words[0] not in parsed_here | OF_OTHERS]
    assert not unknown


def parsed(app: typer.Typer, command: Command) -> tuple[str, Mapping[str, Any]]:
    """Return name and parameters of a command, by its own parser; nothing is run."""
    group: Any = typer.main.get_command(app)
    words, names = list(command.words[1:]), []
    while hasattr(group, "commands"):
        assert words, f"{command}: no command of {command.words[0]}"
        assert words[0] in group.commands, f"{command}: there is no such command"
        names.append(words[0])
        group = group.commands[words.pop(0)]
    try:
        context = group.make_context(" ".join(names), words)
    except Exception as error:
        raise AssertionError(f"{command}: {error}") from error
    return " ".join(names), context.params


def test_commands_of_consilience_are_valid() -> None:
    for command in commands_of("consilience"):
        name, parameters = parsed(cli.app, command)
        protocol = parameters.get("protocol") or "P"
        assert protocol.isupper() or protocol in protocol_names(), str(command)  # in capitals: for the reader to choose
        assignments = [each.split(":", 1)[-1] if name == "up" else each for each in parameters.get("assignments") or ()]
        extra: Mapping[str, Setting] = site_keys() if name in ("check", "up", "attack") else {}
        if name in ("predict", "prepare"):
            extra = {key: each for protocol in protocol_names() for key, each in options(protocol, name).items()}
        settings = parse(assignments, {**extra, **run_keys()})
        run_settings = {key: value for key, value in settings.items() if key in declared()}
        checked({**declared(), **run_settings})
        if name == "run" and parameters["scenario"]:
            assert_scenario_exists({**run_settings, "scenario": parameters["scenario"]}, command)


def options(protocol: str, command: str) -> Mapping[str, Setting]:
    """Options of ``consilience predict`` or ``prepare`` for a protocol, which has a room of that name."""
    if not registry.has_room(protocol, command):
        return {}
    return getattr(registry.room(protocol, command), "Options", Settings).keys()


def assert_scenario_exists(settings: Mapping[str, Any], command: Command) -> None:
    """Assert that the scenario exists, and rows of its table with the labels in `cells` (if its data are at hand)."""
    name = settings["scenario"]
    if name == PREDICT or name.isupper():
        return
    assert name in scenarios(), f"{command}: there is no scenario {name}"
    message = ""
    try:
        select_cells(scenarios()[name], {**declared(), **settings})
    except ScenarioError as error:
        message = str(error)
    assert "no row of" not in message, f"{command}: {message}"
    assert "has no table" not in message, f"{command}: {message}"


def test_commands_of_flwr_are_valid() -> None:
    for command in commands_of("flwr"):
        name, parameters = parsed(flwr_app, command)
        if name == "run":
            config = parse_config_args(parameters["run_config_overrides"])
            unknown = [key for key in config if key not in declared()]
            assert not unknown, f"{command}: no key of a run: {unknown}"
            checked({**declared(), **config})
            if "scenario" in config:
                assert_scenario_exists(config, command)


def test_keys_of_node_configurations_exist() -> None:
    guards = [command for command in commands_of("consilience") if command.words[1] == "guard"]
    assert guards
    for command in [*commands_of("flower-supernode"), *guards]:
        words = list(command.words)
        config = parse_config_args([words[words.index("--node-config") + 1]])
        assert config
        assert not set(config) - known_keys(), str(command)


def test_targets_and_modules_exist() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.M))
    for command in commands_of("make"):
        assert not set(command.words[1:]) - targets, str(command)
    for command in [*commands_of("python"), *commands_of("python3")]:
        if "-m" in command.words:
            module = command.words[command.words.index("-m") + 1]
            assert importlib.util.find_spec(module), f"{command}: there is no module {module}"


# -- blocks --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("page", [page for page in pages() if blocks(page)])
def test_blocks_are_valid_in_their_language(page: str) -> None:
    for block in blocks(page):
        if block.language == "python":
            ast.parse(block.text, str(block))
        elif block.language == "toml":
            tomllib.loads(block.text)
        elif block.language == "json":
            json.loads(block.text)
        elif block.language == "ini":
            unit = ConfigParser(strict=False, interpolation=None, delimiters=("=",))
            unit.read_string(block.text)
            assert unit.sections(), str(block)
        else:
            assert block.language in ("console", "html", "python", "sh", "text"), f"{block}: unknown language"


def test_keys_of_policies_exist() -> None:
    from clients.policy import _KINDS

    for page in pages():
        for block in blocks(page):
            if block.language == "toml" and "max-rounds" in block.text:
                assert set(tomllib.loads(block.text)) <= set(_KINDS), str(block)
