"""What happens when a site fails: every fault in every protocol, and the table of docs/faults.md that comes of it.

A disturbed run ends as another one did, bit for bit: as if nothing had happened, as if an answer had been lost, as if
the site had fallen silent, as if it had not been there. What comes of those is compared with the references, which
know the equations (tests/support/fault_results.py), or with a run of the others alone.
"""

from __future__ import annotations

import itertools
import os
import re
import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from numerics.gp.coarse_answers import CoarseAnswer
from server import app as server_app
from server.results import load
from tests.support import faults
from tests.support.fault_federations import WORLDS, Node, at_home
from tests.support.fault_results import EndedRun, assert_expected
from tests.support.faults import At, FaultyGrid, after, ever, once
from tests.support.grid import Clock
from tests.support.parameters import few
from tests.support.residual_sites import COSTS
from tests.support.runs import run_over, skip_waiting
from tests.support.tampering import CANARY, with_error

PAGE = Path(__file__).resolve().parents[2] / "docs" / "faults.md"
REWRITE = "CONSILIENCE_REWRITE_FAULTS"
"""Environment variable by which the page's table is written anew (``make faults``)."""

WHOLE = "as undisturbed"
LESS = "without its answer of the round"
GONE = "without its answers from there on"
ABSENT = "as without it"
STOPS = "stops"

MEANS: Mapping[str, Mapping[str, str]] = {
    "bc3e": {LESS: "its last sums stand in once", GONE: "its last sums stand in"},
    "sec": dict.fromkeys((LESS, GONE), "clustered by the others' losses"),
    "residual": {LESS: "its last prediction stands in once", GONE: "its last prediction stands in"},
    "coreset": dict.fromkeys((LESS, GONE), "its rows are not counted"),
    "gp": dict.fromkeys((LESS, GONE), "its experts are dropped"),
}
"""What an end is called in a protocol's column: what `right` asserts."""


@dataclass(frozen=True)
class Trouble:
    """A fault.

    Attributes
    ----------
    title : str
        What happens, for the table.
    ends : str
        How the run ends, in the table's words.
    at : Callable or None
        What becomes of the answers of the sites in trouble.
    like : str
        Title of the fault that has the same result; empty: this one is compared with the references.
    everybody : bool
        Whether all sites are in trouble, and not one alone.
    nodes : Callable
        Changes the node configurations.
    settings : Mapping
        Of the run configuration.
    stopped : Callable or None
        The fusion center is stopped when the round's answers are there; this happens before it goes on.
    line : str
        Pattern of the line with which the run stops.
    """

    title: str
    ends: str
    at: At | None = None
    like: str = ""
    everybody: bool = False
    nodes: Callable[[list[Node]], list[Node]] = list
    settings: Mapping[str, Any] = field(default_factory=dict)
    stopped: Callable[[Path], object] | None = None
    line: str = ""


def from_the_start(trouble: faults.Injection) -> At:
    return lambda number: ever(trouble)(1)


def killed_for_good(asked: faults.Delivery) -> Any:
    return asked.lost()


def crashed(asked: faults.Delivery) -> Any:
    return with_error(asked.answer(), CANARY)


def killed_with_its_disk(asked: faults.Delivery) -> Any:
    faults.forgets(asked)
    return asked.lost()


def namesakes(nodes: list[Node]) -> list[Node]:
    return [*nodes[:-1], {**nodes[-1], "site": nodes[0]["site"]}]


UNTROUBLED = "nothing"
NO_ANSWER, NO_ASK, SILENT = "its answer is lost", "the ask does not reach it", "it stops answering"

TROUBLES = (
    Trouble(UNTROUBLED, WHOLE),
    Trouble("it never answers", ABSENT, from_the_start(faults.no_answer)),
    Trouble(SILENT, GONE, ever(faults.no_answer)),
    Trouble(NO_ASK, LESS, once(faults.no_ask)),
    Trouble(NO_ANSWER, LESS, once(faults.no_answer)),
    Trouble("its answer comes a round late", LESS, once(faults.late), NO_ANSWER),
    Trouble("it answers the previous ask again", LESS, faults.earlier, NO_ANSWER),
    Trouble("its SuperNode ends during an ask, for good", GONE, ever(killed_for_good), SILENT),
    Trouble("its SuperNode is killed during an ask and started again", LESS, once(faults.dies_before), NO_ASK),
    Trouble(
        "its SuperNode is killed just before it answers, and started again", LESS, once(faults.dies_behind),
        NO_ANSWER,
    ),
    Trouble(
        "its SuperNode is killed during an ask, started again, and has lost its disk", LESS, once(killed_with_its_disk),
        NO_ASK,
    ),
    Trouble("its SuperNode is started again between two asks", WHOLE, after(faults.Delivery.restart), UNTROUBLED),
    Trouble(
        "its SuperNode is started again between two asks and has lost its disk", WHOLE, after(faults.forgets),
        UNTROUBLED,
    ),
    Trouble(
        "all SuperNodes are started again and have lost their disks", WHOLE, after(faults.forgets), UNTROUBLED,
        everybody=True,
    ),
    Trouble("its process crashes", LESS, once(crashed), NO_ANSWER),
    Trouble("its computation fails once", LESS, once(faults.raises), NO_ASK),
    Trouble("its computation fails every time", GONE, ever(faults.raises), SILENT),
    Trouble("its disk is full", GONE, ever(faults.full), SILENT),
    Trouble("it sends NaN", LESS, once(faults.not_a_number), NO_ANSWER),
    Trouble("it sends another protocol's payload", LESS, once(faults.foreign), NO_ANSWER),
    Trouble("it sends 2 MB, and 1 is allowed", LESS, once(faults.huge), NO_ANSWER, settings={"max-payload-mb": 1.0}),
    Trouble("its message has no envelope", LESS, once(faults.no_envelope), NO_ANSWER),
    Trouble("it changes its name", GONE, ever(faults.renamed), SILENT),
    Trouble("it takes another site's name", GONE, ever(faults.impostor), SILENT),
    Trouble("another site connects during the run", WHOLE, after(faults.newcomer), UNTROUBLED),
    Trouble("two sites have one name", STOPS, nodes=namesakes, line="two sites call themselves '{first}': give each"),
    Trouble(
        "it stops answering, and `min-sites` is all", STOPS, ever(faults.no_answer), settings={"min-sites": "all"},
        line="round {round}: {rest} of {all} sites answered, min-sites is {all} ({name}: no answer within 5 s)",
    ),
    Trouble(
        "all sites stop answering", STOPS, ever(faults.no_answer), everybody=True,
        line="round {round}: 0 of {all} sites answered, min-sites is 1 (",
    ),
    Trouble(
        "no site ever answers", STOPS, from_the_start(faults.no_answer), everybody=True,
        line="round 1: 0 of {all} sites answered, min-sites is 1 (",
    ),
    Trouble("the center is stopped; `resume-from`", WHOLE, like=UNTROUBLED, stopped=lambda homes: None),
    Trouble(
        "the center is stopped, all sites lose their disks; `resume-from`", WHOLE, like=UNTROUBLED,
        stopped=shutil.rmtree,
    ),
)  # fmt: skip


class Bench:
    """The federation of one protocol, and every run on it, each made once."""

    def __init__(self, protocol: str, folder: Path, clock: Clock) -> None:
        self.world = WORLDS[protocol](folder)
        self.folder, self.clock = folder, clock
        self._run_ids = itertools.count(1000)
        self._known: dict[str, EndedRun | str] = {}

    def run(self, trouble: Trouble) -> EndedRun | str:
        """What comes of a run in this trouble: its results, or the line with which it stops."""
        if trouble.title not in self._known:
            self._known[trouble.title] = self._run(trouble)
        return self._known[trouble.title]

    def _run(self, trouble: Trouble) -> EndedRun | str:
        world, homes, started = self.world, self.folder / f"homes-{len(self._known)}", self.clock.now
        settings = {**world.settings, **trouble.settings}
        if settings["min-sites"] == "all":
            settings["min-sites"] = len(world.nodes)
        nodes = trouble.nodes(at_home(world.nodes, homes))
        if trouble.stopped:
            settings["resume-from"] = self._interrupted(settings, nodes)
            trouble.stopped(homes)
        grid = self._grid(settings, nodes, trouble)
        try:
            path = run_over(grid, settings)
        except server_app.REFUSALS as error:
            return str(error)
        finally:
            waited = self.clock.now - started
            assert waited < (grid.rounds + 1) * 1.1 * settings["round-timeout"], "a wait has no limit"
        return EndedRun(world, *load(path), path, homes, grid.crossed)

    @property
    def about(self) -> dict[str, Any]:
        """What a line may say of this federation."""
        everybody = len(self.world.nodes)
        return {
            "name": self.world.name,
            "first": self.world.names[0],
            "round": self.world.strikes,
            "all": everybody,
            "rest": everybody - 1,
        }

    def _grid(self, settings: Mapping[str, Any], nodes: list[Node], trouble: Trouble) -> FaultyGrid:
        grid = FaultyGrid(nodes, dict(settings), next(self._run_ids))
        grid.victims = tuple(range(len(nodes))) if trouble.everybody else (self.world.victim,)
        grid.injection = trouble.at(self.world.strikes) if trouble.at else None
        return grid

    def _interrupted(self, settings: Mapping[str, Any], nodes: list[Node]) -> str:
        """Where the results would have been of a run that is stopped with a round's answers there and not yet saved."""
        grid = self._grid(settings, nodes, TROUBLES[0])
        grid.stop_after = self.world.strikes
        with pytest.raises(grid.stop):
            run_over(grid, settings)
        run_id = next(iter(grid.contexts.values())).run_id
        [partial] = Path(str(settings["output-dir"])).glob(f"*/.{run_id}.partial")
        return str(partial.parent / str(run_id))


def without(bench: Bench) -> Trouble:
    """A run of the others alone."""
    name = bench.world.name
    return Trouble("it is not there", WHOLE, nodes=lambda nodes: [node for node in nodes if node["site"] != name])


@pytest.fixture(scope="module")
def clock() -> Iterator[Clock]:
    with pytest.MonkeyPatch.context() as patch:
        # The references know the equations, not how a real site rounds its predictions.
        patch.setattr("clients.gp.point_answers.coarse", lambda *answer: CoarseAnswer(*answer[:3]))
        patch.setattr("clients.gp.point_answers.lone_queries", lambda n_rows: 10**6)
        yield skip_waiting(patch)


@pytest.fixture(scope="module")
def benches(clock: Clock, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Bench]:
    return {protocol: Bench(protocol, tmp_path_factory.mktemp(protocol), clock) for protocol in WORLDS}


# -- how runs end -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("trouble", TROUBLES, ids=lambda trouble: trouble.title)
@pytest.mark.parametrize("protocol", few(list(WORLDS), 2))
def test_a_run_in_trouble_ends(benches: dict[str, Bench], protocol: str, trouble: Trouble) -> None:
    bench = benches[protocol]
    found = bench.run(trouble)
    if trouble.ends == STOPS:
        assert isinstance(found, str)
        assert found.startswith(trouble.line.format(**bench.about))
        return
    assert isinstance(found, EndedRun), found
    assert_named(found, trouble.ends)
    if trouble.ends == ABSENT:
        assert_same(found, bench.run(without(bench)))
    elif not trouble.like:
        assert_expected(found)
    else:
        [other] = [each for each in TROUBLES if each.title == trouble.like]
        assert_same(found, bench.run(other))


def test_nobody_waits_for_a_site_that_leaves_before_the_first_round(benches: dict[str, Bench]) -> None:
    """One that was connected when the run was set up, and that nobody has heard yet: there are enough without it."""
    bench = benches["bc3e"]
    settings = bench.world.settings
    grid = Leaving(at_home(bench.world.nodes, bench.folder / "homes-leaving"), settings, 999)
    grid.victims = (bench.world.victim,)
    path = run_over(grid, settings)
    assert_same(EndedRun(bench.world, *load(path), path, bench.folder, grid.crossed), bench.run(without(bench)))


class Leaving(FaultyGrid):
    """The victims are connected for two looks, which is how often a fusion center counts them before it begins."""

    looks = 0

    def get_node_ids(self) -> list[int]:
        self.looks += 1
        there = list(super().get_node_ids())
        return [node for node in there if self.looks <= 2 or (node - 1000) // 7 not in self.victims]


def assert_named(found: EndedRun, ends: str) -> None:
    """The report names the site in trouble, and nobody else; it has no text of the site's own."""
    name = f"node {1000 + 7 * found.world.victim}" if ends == ABSENT else found.world.name
    assert set(found.report.missing) <= {name}
    assert found.report.missing or ends == WHOLE
    assert CANARY not in str(found.report)


def assert_same(found: EndedRun, other: EndedRun | str) -> None:
    """Equal metrics, but for what was sent, tables and arrays: bit for bit."""
    assert isinstance(other, EndedRun)
    metrics, wanted = ({**each.report.metrics} for each in (found, other))
    for name in COSTS:
        metrics.pop(name, None)
        wanted.pop(name, None)
    assert found.arrays.keys() == other.arrays.keys()
    assert metrics == wanted
    assert found.report.table == other.report.table
    for name, array in other.arrays.items():
        assert found.arrays[name].tobytes() == array.tobytes(), name


# -- the page ---------------------------------------------------------------------------------------------------------

_BEGIN, _END = "<!-- written by the tests: make faults -->\n", "<!-- end of what the tests write -->"


def said_of(bench: Bench, trouble: Trouble) -> list[str]:
    """What report or line say of it, without what differs from federation to federation."""
    found = bench.run(trouble)
    if isinstance(found, str):
        said = [found]
    else:
        notes = [note for note in found.report.notes if "lost its memory" in note]
        said = [line.partition(": ")[2] for lines in found.report.missing.values() for line in lines] + notes
    return list(dict.fromkeys(_general(line, bench) for line in said))


def _general(line: str, bench: Bench) -> str:
    """Names of sites, and numbers of rounds and sites, are replaced by letters."""
    for name in bench.world.names:
        line = re.sub(rf"\b{name}\b", "SITE", line)
    line = re.sub(r"\bround \d+", "round N", re.sub(r"node \d+", "SITE", line))
    line = re.sub(r"\b\d+ of \d+ sites", "N of N sites", re.sub(r"min-sites is \d+", "min-sites is N", line))
    # Those who did not answer are listed; one is enough.
    line = re.sub(r"SITE(, SITE)+( and \d+ more)?: ", "SITE, ...: ", line)
    return re.sub(r"\((SITE[^;]*)(; SITE[^;]*)+\)$", r"(\1; ...)", line)


def table(benches: Mapping[str, Bench]) -> str:
    """Faults x protocol x what happened; faults that end alike share a row."""
    protocols = [f"[{name}]({name}-reference.md#a-site-that-fails)" for name in benches]
    rows = [["what happens", *protocols]]
    rows.append(["---"] * len(rows[0]))
    alike: dict[tuple[str, ...], list[Trouble]] = {}
    for trouble in TROUBLES[1:]:
        ends = tuple(MEANS[protocol].get(trouble.ends, trouble.ends) for protocol in benches)
        alike.setdefault(ends, []).append(trouble)
    for ends, troubles in alike.items():
        rows.append(["<br>".join(each.title for each in troubles), *ends])
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def test_the_page_says_what_happens(benches: dict[str, Bench]) -> None:
    text = PAGE.read_text(encoding="utf-8")
    before, between, rest = text.partition(_BEGIN)
    assert between
    written, between, behind = rest.partition(_END)
    assert between
    seen = f"\n{table(benches)}\n"
    if REWRITE in os.environ:
        PAGE.write_text(f"{before}{_BEGIN}{seen}{_END}{behind}", encoding="utf-8")
    else:
        assert written == seen, "docs/faults.md is not what happens: make faults"


@pytest.mark.parametrize("protocol", few(list(WORLDS), 2))
def test_the_page_says_what_to_do_about_every_message(benches: dict[str, Bench], protocol: str) -> None:
    told = PAGE.read_text(encoding="utf-8").partition(_END)[2]
    messages = " ".join(re.findall(r"^- ((?:`[^`]*`(?:, )?)+):", told, re.MULTILINE))
    patterns = [re.escape(each).replace(r"\.\.\.", ".*") for each in re.findall(r"`([^`]*)`", messages)]
    for trouble in TROUBLES:
        for line in said_of(benches[protocol], trouble):
            assert any(re.search(pattern, line) for pattern in patterns), line
