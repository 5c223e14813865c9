"""The commands of the pages: all are understood by what they call, those that start nothing are run."""

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
from common.settings import Setting, Settings, parse
from consilience import cli
from protocols import registry
from protocols.registry import names as protocol_names
from protocols.settings import checked, declared, run_keys, site_keys
from scenarios.registry import ScenarioError, scenarios, select_cells
from tests.docs.test_pages import NEW, known_keys
from tests.support.documentation import ROOT, Block, blocks, pages, quoted

OF_OTHERS = {
    *("cd", "export", "head", "mkdir", "openssl", "pip", "pre-commit", "ssh-keygen"),
    *("flower-superlink",),
}
"""Commands that are not ours, and that are not looked into."""
_IN_SENTENCES = re.compile(
    r"(?:make \S+|python3? -m .+|(?:consilience \S+|flwr run|flower-supernode) .*(?<= )[^- ]\S*)"
)
"""A command with its arguments; one without them, or that ends with an option, is only spoken of."""
_ENVIRONMENT = re.compile(r"[A-Z_]+=\S*")


@dataclass(frozen=True)
class Command:
    """One command of a block, as a shell would take it apart."""

    block: Block
    words: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.block}: {shlex.join(self.words)}"


def commands(block: Block) -> Iterator[Command]:
    """The commands of a block; quotes may go over several lines."""
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
    found: list[str] = []
    for word in [*words, ";"]:
        if set(word) <= set(";&|"):
            while found and _ENVIRONMENT.fullmatch(found[0]):
                found = found[1:]
            if found:
                yield found
            found = []
        else:
            found.append(word)


def in_sentences(page: str) -> list[Command]:
    """Whole commands that a page's sentences and tables have; it has no line of its own."""
    told = [text for text in quoted(page) if _IN_SENTENCES.fullmatch(text) and "..." not in text]
    return [command for text in told for command in commands(Block(page, 0, "sh", text))]


@cache
def all_commands() -> tuple[Command, ...]:
    """Those of blocks, and whole ones in sentences."""
    found: list[Command] = []
    for page in pages():
        of_page = [block for block in blocks(page) if block.language == "sh"]
        found += [command for block in of_page for command in commands(block)] + in_sentences(page)
    return tuple(found)


def ours(name: str) -> list[Command]:
    """The commands that call a program, and are not about the protocol that docs/extend.md would add."""
    found = [each for each in all_commands() if each.words[0] == name]
    assert found
    return [each for each in found if NEW not in " ".join(each.words)]


# -- what is typed ----------------------------------------------------------------------------------------------------


def test_every_command_is_known() -> None:
    looked_into = {".", "consilience", "flower-supernode", "flwr", "make", "python", "python3"}
    unknown = [str(each) for each in all_commands() if each.words[0] not in looked_into | OF_OTHERS]
    assert not unknown


def parsed(app: typer.Typer, command: Command) -> tuple[str, Mapping[str, Any]]:
    """Name and parameters of a command, as its own parser understands it; nothing is run."""
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


def test_commands_of_consilience_are_understood() -> None:
    for command in ours("consilience"):
        name, given = parsed(cli.app, command)
        protocol = given.get("protocol") or "P"
        assert protocol.isupper() or protocol in protocol_names(), str(command)  # in capitals: the reader's own choice
        assignments = [each.split(":", 1)[-1] if name == "up" else each for each in given.get("assignments") or ()]
        extra: Mapping[str, Setting] = site_keys() if name in ("check", "up") else {}
        if name == "predict":
            extra = {key: each for protocol in protocol_names() for key, each in predict_options(protocol).items()}
        settings = parse(assignments, {**extra, **run_keys()})
        of_the_run = {key: value for key, value in settings.items() if key in declared()}
        checked({**declared(), **of_the_run})
        if name == "run" and given["scenario"]:
            assert_scenario_exists({**of_the_run, "scenario": given["scenario"]}, command)


def predict_options(protocol: str) -> Mapping[str, Setting]:
    """Options of ``consilience predict`` for results of a protocol."""
    if not registry.has_room(protocol, "predict"):
        return {}
    return getattr(registry.room(protocol, "predict"), "Options", Settings).keys()


def assert_scenario_exists(settings: Mapping[str, Any], command: Command) -> None:
    """And `cells` names labels that rows of its table have; where no data are at hand nobody can tell."""
    name = settings["scenario"]
    if name == PREDICT or name.isupper():
        return
    assert name in scenarios(), f"{command}: there is no scenario {name}"
    told = ""
    try:
        select_cells(scenarios()[name], {**declared(), **settings})
    except ScenarioError as error:
        told = str(error)
    assert "no row of" not in told, f"{command}: {told}"
    assert "has no table" not in told, f"{command}: {told}"


def test_commands_of_flwr_are_understood() -> None:
    for command in ours("flwr"):
        name, given = parsed(flwr_app, command)
        if name == "run":
            config = parse_config_args(given["run_config_overrides"])
            unknown = [key for key in config if key not in declared()]
            assert not unknown, f"{command}: no key of a run: {unknown}"
            checked({**declared(), **config})
            if "scenario" in config:
                assert_scenario_exists(config, command)


def test_nodes_are_configured_with_keys_that_there_are() -> None:
    for command in ours("flower-supernode"):
        words = list(command.words)
        config = parse_config_args([words[words.index("--node-config") + 1]])
        assert config
        assert not set(config) - known_keys(), str(command)


def test_targets_and_modules_are_there() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.M))
    for command in ours("make"):
        assert not set(command.words[1:]) - targets, str(command)
    for command in [*ours("python"), *ours("python3")]:
        if "-m" in command.words:
            module = command.words[command.words.index("-m") + 1]
            assert importlib.util.find_spec(module), f"{command}: there is no module {module}"


# -- what is written --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("page", [page for page in pages() if blocks(page)])
def test_blocks_can_be_read_as_what_they_say_they_are(page: str) -> None:
    for block in blocks(page):
        if block.language == "python" and ": into " not in block.text.partition("\n")[0]:
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
            assert block.language in ("console", "html", "python", "sh", "text"), f"{block}: in which language is it?"


def test_policies_on_the_pages_are_read() -> None:
    from clients.policy import _KINDS

    for page in pages():
        for block in blocks(page):
            if block.language == "toml" and "max-rounds" in block.text:
                assert set(tomllib.loads(block.text)) <= set(_KINDS), str(block)
