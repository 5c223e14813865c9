"""What no byte that leaves a site may hold: a row's numbers, its texts, names, paths, and the text of any error."""

from __future__ import annotations

import json
import logging
import sys
import zipfile
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from flwr.app import Context, Message, RecordDict
from flwr.supercore.inflatable.inflatable_object import get_all_nested_objects
from flwr.supercore.task_identity import TaskIdentity

import clients.dispatch
from clients.dispatch import handle, handler_of
from consilience.local_engine.wire import over_the_wire
from protocols.bc3e.payloads import Survey
from protocols.wire.faults import Fault
from protocols.wire.message import Answer, Ask, Parcel, read_answer, write_ask
from protocols.wire.payload import Payload, decode_array
from server import app as server_app
from server.results import load
from tests.support.grid import Tamper, config
from tests.support.runs import make_grid, outcome_of, run_over

pytestmark = pytest.mark.usefixtures("quick")

SITES = ("alder", "birch", "cedar")
N = 60
CANARY = "canary"
"""In every text of a site's that is to stay there."""
INPUT, OUTCOME, UNUSED = 4711.123456789, 815.0987654321, 12345.6789012345
"""One row's numbers: of every column that is used, of the outcome, of a column that is not used."""
SOFT = 0.471108150987
"""One instance's probability, as a classifier of the site's gave it."""


# -- what is planted --------------------------------------------------------------------------------------------------


def frame_of(place: int) -> pd.DataFrame:
    """A site's rows: names and a remark that are canaries; row 7 is a canary in every column."""
    rng = np.random.default_rng([17, place])
    x = rng.normal(size=(N, 3))
    frame = pd.DataFrame(x * [1, 10, 100] + [5, 50, 500], columns=["age", "dose", "rate"])
    frame["owed"] = 3 * x[:, 0] - x[:, 1] + 0.2 * rng.normal(size=N) + 9
    frame["sex"] = np.where(np.arange(N) % 2, "F", "M")
    frame.loc[7, ["age", "dose", "rate"]] = INPUT, INPUT / 3, INPUT / 7
    frame.loc[7, "owed"] = OUTCOME
    frame[f"{CANARY}_number"] = rng.normal(size=N)
    frame.loc[7, f"{CANARY}_number"] = UNUSED
    frame[f"{CANARY}_remark"] = [f"{CANARY}-remark-{row}" for row in range(N)]
    frame.insert(0, "case", [f"{CANARY}-case-{row}" for row in range(N)])
    return frame


def labels_of(place: int) -> pd.DataFrame:
    """What a site's models said of its instances: two soft classifiers, two clusterings."""
    rng = np.random.default_rng([18, place])
    frame = pd.DataFrame({"case": [f"{CANARY}-case-{row}" for row in range(N)]})
    for name in (f"class_{place}_a", f"class_{place}_b"):
        share = np.round(rng.uniform(size=N), 6)
        share[7] = SOFT
        frame[f"{name}:0"], frame[f"{name}:1"] = share, 1 - share
    for name in (f"cluster_{place}_a", f"cluster_{place}_b"):
        frame[name] = rng.integers(3, size=N)
    frame["diagnosis"] = rng.integers(2, size=N)
    frame[f"{CANARY}_number"] = UNUSED
    frame[f"{CANARY}_remark"] = f"{CANARY}-remark"
    return frame


@dataclass(frozen=True)
class Case:
    """A run: what is set for all, what a node sets for itself, which columns a site has, who holds the outcome.

    Attributes
    ----------
    columns : tuple
        By site, columns beside those that all have; None: all columns.
    holder : str
        Of residual, the site that holds the outcome; empty: the center.
    """

    protocol: str
    changes: Mapping[str, Any] = field(default_factory=dict)
    node: Mapping[str, Any] = field(default_factory=dict)
    columns: tuple[tuple[str, ...], ...] | None = None
    holder: str = ""


SPLIT = (("age",), ("dose",), ("rate",))
RESIDUAL: dict[str, Any] = {"residual__rounds": 3, "residual__min_leaf": 5}
SEALED = {"align-key-file": f"{CANARY}-secret"}
TARGET, NAMED = {"target": "owed", "features": "age dose rate"}, {"id": "case"}
GROUPED = {"sensitive": "sex", "features": "age dose rate", **NAMED}
SEC: dict[str, Any] = {"sec__holdout": 0.0}  # row 7 is learned from
BC3E: dict[str, Any] = {"bc3e__max_rounds": 2, "bc3e__sweeps": 2}
LABELED = {**NAMED, "truth": "diagnosis", "allow-shared-instances": True}

CASES: dict[str, Case] = {
    "bc3e-row": Case("bc3e", BC3E, LABELED),
    "bc3e-column": Case("bc3e", {**BC3E, "bc3e__distribution": "column"}, LABELED),
    "bc3e-arbitrary": Case("bc3e", {**BC3E, "bc3e__distribution": "arbitrary"}, LABELED),
    "sec-lr": Case("sec", {**SEC, "sec__candidates": "lr ridge lasso"}, TARGET),
    "sec-pooled-linear": Case("sec", {**SEC, "sec__candidates": "lr", "sec__combine": "pooled-linear"}, TARGET),
    "sec-pooled-rows": Case("sec", {**SEC, "sec__combine": "pooled-rows", "sec__k": 1}, TARGET),  # without consent
    "sec-learner": Case("sec", {**SEC, "sec__candidates": "lr", "sec__standardize": "learner"}, TARGET),
    "sec-rf": Case("sec", {**SEC, "sec__candidates": "rf(n_estimators=5)"}, TARGET),
    "sec-tree": Case("sec", {**SEC, "sec__candidates": "tree"}, TARGET),
    "sec-gb": Case("sec", {**SEC, "sec__candidates": "gb(n_estimators=5)"}, TARGET),
    "sec-hgb": Case("sec", {**SEC, "sec__candidates": "hgb(max_iter=5)"}, TARGET),
    "sec-nn": Case("sec", {**SEC, "sec__candidates": "nn"}, TARGET),
    "residual-sip": Case("residual", {**RESIDUAL, "residual__algorithm": "sip"}, NAMED, SPLIT),
    "residual-parallel": Case("residual", {**RESIDUAL, "residual__algorithm": "parallel"}, NAMED, SPLIT),
    "residual-greedy": Case("residual", {**RESIDUAL, "residual__algorithm": "greedy"}, NAMED, SPLIT),
    "residual-bins": Case(
        "residual", {**RESIDUAL, "residual__algorithm": "bins"}, {**NAMED, "allow-bins": True}, SPLIT
    ),
    "residual-sealed": Case(
        "residual", {**RESIDUAL, "residual__algorithm": "sip", **SEALED}, {**NAMED, **SEALED}, SPLIT, "birch"
    ),
    "residual-sealed-ring": Case(
        "residual",
        {**RESIDUAL, "residual__algorithm": "sip", "residual__topology": "ring", **SEALED},
        {**NAMED, **SEALED},
        SPLIT,
        "birch",
    ),
    "coreset": Case("coreset", {"coreset__k": 3, "coreset__size": 12}, GROUPED),
    "coreset-exact": Case(
        "coreset",
        {"coreset__k": 3, "coreset__size": 12, "coreset__assignment": "exact"},
        {**GROUPED, "allow-prices": True},
    ),
    "gp": Case("gp", {"gp__gate": "knn"}, {**TARGET, **NAMED}),
    "gp-dnn": Case("gp", {"gp__gate": "dnn", "gp__gate_rounds": 2}, {**TARGET, **NAMED, "allow-gate-training": True}),
}


def plant(tmp_path: Path, case: Case) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Files and directories whose paths are canaries, and the configuration of a deployment on them."""
    home = tmp_path / f"{CANARY}-home"
    home.mkdir()
    (home / f"{CANARY}-secret").write_text(f"{CANARY}: what the sites share")
    nodes = []
    for place, site in enumerate(SITES):
        path = home / f"{CANARY}-{site}.csv"
        frame = labels_of(place) if case.protocol == "bc3e" else frame_of(0 if case.columns else place)
        if case.protocol == "bc3e" and "bc3e__distribution" not in case.changes:
            frame["case"] += f"-{site}"
        if case.columns:
            kept = ["case", *case.columns[place], *(["owed"] if site == case.holder else [])]
            frame = frame[kept]
        frame.to_csv(path, index=False)
        node = {
            "site": site,
            "data": str(path),
            "site-output-dir": str(home / f"{CANARY}-out" / site),
            **case.node,
            **({"target": "owed"} if site == case.holder else {}),
        }
        nodes.append(_with_secret(node, home))
    settings = config(tmp_path, protocol=case.protocol, **case.changes)
    if case.protocol == "residual" and not case.holder:
        frame_of(0)[["case", "owed"]].to_csv(tmp_path / "labels.csv", index=False)
        settings |= {"labels": str(tmp_path / "labels.csv"), "target": "owed", "id": "case"}
    if case.protocol == "gp":
        frame_of(9)[["age", "dose", "rate"]].iloc[20:30].to_csv(tmp_path / "queries.csv", index=False)
        settings |= {"gp.queries": str(tmp_path / "queries.csv")}
    return _with_secret(settings, home), nodes


def _with_secret(given: dict[str, Any], home: Path) -> dict[str, Any]:
    return given | ({"align-key-file": str(home / given["align-key-file"])} if given.get("align-key-file") else {})


# -- the search -------------------------------------------------------------------------------------------------------


def recorder(found: list[Message]) -> Tamper:
    """Keeps every reply as it arrives at the center."""

    def keep(_place: int, _number: int, reply: Message) -> Message:
        found.append(reply)
        return reply

    return keep


def bytes_of(replies: Iterable[Message]) -> bytes:
    """Every byte of these replies, header and error too, and what is in models as it is when inflated."""
    found = []
    for reply in replies:
        found += [each.deflate() for each in get_all_nested_objects(reply).values()]
        found += [inflated(each) for each in arrays_of(reply) if each.dtype == np.uint8]
    return b"\n".join(found)


def arrays_of(reply: Message) -> list[np.ndarray]:
    if not reply.has_content():
        return []
    return [decode_array(array) for record in reply.content.array_records.values() for array in record.values()]


def inflated(data: np.ndarray) -> bytes:
    """All members of a model's file; nothing of other bytes."""
    file = BytesIO(data.tobytes())
    if not zipfile.is_zipfile(file):
        return b""
    with zipfile.ZipFile(file) as members:
        return b"\n".join(members.read(name) for name in members.namelist())


def forms_of(value: float) -> dict[str, bytes]:
    """A number as it may be written."""
    forms = {kind: np.array(value, kind).tobytes() for kind in ("<f8", ">f8", "<f4", ">f4")}
    forms |= {f"grid {bits}": np.array(round(value * 2**bits), "<i8").tobytes() for bits in range(16, 49)}
    forms |= {"text": repr(value).encode(), "json": json.dumps(value).encode(), "short": f"{value:.9g}".encode()}
    return forms


def numbers_of(replies: Iterable[Message]) -> np.ndarray:
    """Every floating-point number that arrived, sorted."""
    arrays = [each for reply in replies for each in arrays_of(reply) if each.dtype.kind == "f"]
    return np.sort(np.concatenate([np.ravel(each).astype(np.float64) for each in arrays] or [np.zeros(0)]))


def planted(case: Case) -> list[float]:
    """The numbers of row 7, also in units of their column's standard deviation about its mean."""
    if case.protocol == "bc3e":
        return [SOFT, 1 - SOFT, UNUSED]
    found = [INPUT, INPUT / 3, INPUT / 7, OUTCOME, UNUSED]
    for place in range(1 if case.columns else len(SITES)):
        table = frame_of(place).select_dtypes("number")
        row = (table.loc[7] - table.mean()) / table.std(ddof=0)
        found += [float(value) for value in row.to_numpy(float)]
    return found


def leaks(replies: list[Message], home: Path, values: Iterable[float]) -> list[str]:
    """What of a site's is found in what left it."""
    crossed, numbers = bytes_of(replies), numbers_of(replies)
    found = [repr(text) for text in (CANARY, str(home), home.name, "Traceback") if text.encode() in crossed]
    for value in values:
        found += [f"{value} as {form}" for form, written in forms_of(value).items() if written in crossed]
        near = np.abs(numbers - value) <= 1e-9 * abs(value)
        found += [f"{value} nearly"] * bool(near.any())
    return found


# -- rows, names and paths --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", CASES)
def test_nothing_of_a_row_and_no_name_or_path_leaves_a_site(tmp_path: Path, name: str) -> None:
    case = CASES[name]
    settings, nodes = plant(tmp_path, case)
    replies: list[Message] = []
    report, _ = load(run_over(make_grid(settings, nodes, tamper=recorder(replies)), settings))
    assert not report.missing
    assert {reply.content["envelope"]["site"] for reply in replies} == set(SITES)
    assert not leaks(replies, tmp_path, planted(case))


def test_where_rows_may_leave_by_consent_the_search_finds_them(tmp_path: Path) -> None:
    """Nearest neighbors are rows; a fair coreset of points of one row each, too; and pooled rows."""
    knn = Case(
        "sec", {**SEC, "sec__candidates": "knn", "sec__standardize": "none"}, {**TARGET, "allow-row-models": True}
    )
    points = Case(
        "coreset", {"coreset__k": 3, "coreset__size": 90, "coreset__min_weight": 1}, {**GROUPED, "min-weight": 1}
    )
    pooled = Case("sec", {**SEC, "sec__combine": "pooled-rows", "sec__k": 1}, {**TARGET, "allow-pooling": True})
    for place, case in enumerate((knn, points, pooled)):
        (tmp_path / str(place)).mkdir()
        settings, nodes = plant(tmp_path / str(place), case)
        replies: list[Message] = []
        run_over(make_grid(settings, nodes, tamper=recorder(replies)), settings)
        assert f"{INPUT} as <f8" in leaks(replies, tmp_path, planted(case))


# -- errors -----------------------------------------------------------------------------------------------------------

OWN_CODE = f"""
import sys
from pathlib import Path

def raises(config):
    secret = "{CANARY}-local"
    raise ValueError("{CANARY}: " + secret)

def exits(config):
    sys.exit("{CANARY}: out")

def answers_nonsense(config):
    return "{CANARY}"
"""


def first_answer(node: dict[str, Any], tmp_path: Path) -> tuple[Answer, Message]:
    """What a real site of BC3E says to the first ask."""
    TaskIdentity.run_id, TaskIdentity.node_id, TaskIdentity.task_id = 1, 7, 1
    context = Context(1, 7, node, RecordDict(), config(tmp_path, protocol="bc3e"))
    ask = Parcel("0", Survey("row", "salt"))
    message = over_the_wire(Message(write_ask(Ask("1", 1, 0, [ask])), 7, "train", group_id="1"))
    reply = over_the_wire(handle(message, context))
    return read_answer(reply.content, [ask]), reply


def _file(text: str, name: str = f"{CANARY}.csv") -> Callable[[Path], str]:
    def write(folder: Path) -> str:
        (folder / name).write_text(text)
        return str(folder / name)

    return write


BROKEN: dict[str, tuple[Callable[[Path], str], Fault]] = {
    "a function that raises": (lambda _: f"{CANARY}_code:raises", Fault.FUNCTION_FAILED),
    "a function that ends the process": (lambda _: f"{CANARY}_code:exits", Fault.FUNCTION_FAILED),
    "a function of another kind": (lambda _: f"{CANARY}_code:answers_nonsense", Fault.BAD_SHAPE),
    "a function that is not there": (lambda _: f"{CANARY}_code:{CANARY}", Fault.BAD_CONFIGURATION),
    "a module that raises": (lambda _: f"{CANARY}_broken:rows", Fault.FUNCTION_FAILED),
    "no file": (lambda folder: str(folder / f"{CANARY}.csv"), Fault.NO_DATA_FILE),
    "a name that is no text": (lambda folder: str(folder / f"{CANARY}-\udcff.csv"), Fault.NO_DATA_FILE),
    "text for numbers": (_file(f"case,class_a\n1,{CANARY}\n2,0\n"), Fault.NOT_NUMERIC),
    "no such column": (_file(f"case,{CANARY}\n1,2\n2,2\n"), Fault.MISSING_COLUMN),
    "a name twice": (_file(f"case,class_a\n{CANARY},1\n{CANARY},1\n"), Fault.DUPLICATE_ENTITY),
    "no parquet": (_file(CANARY, f"{CANARY}.parquet"), Fault.UNREADABLE_DATA),
}


@pytest.mark.parametrize("what", BROKEN)
def test_of_broken_data_a_code_leaves_and_the_rest_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    data, fault = BROKEN[what]
    # What is captured of a log crosses between pytest's own processes, which take no lone surrogate.
    monkeypatch.setattr(logging.getLogger("flwr"), "disabled", True)
    (tmp_path / f"{CANARY}_code.py").write_text(OWN_CODE)
    (tmp_path / f"{CANARY}_broken.py").write_text(f"raise RuntimeError('{CANARY}')")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, f"{CANARY}_code", raising=False)
    home = tmp_path / f"{CANARY}-out"
    node = {"site": "alder", "data": data(tmp_path), "id": "case", "site-output-dir": str(home)}
    answer, reply = first_answer(node, tmp_path)
    assert (answer.site, answer.fault) == ("alder", fault)
    assert not leaks([reply], tmp_path, ())
    assert CANARY in (home / "errors.log").read_text(encoding="utf-8")


class CanaryError(Exception):
    """An error of a handler's: its text and its name hold what must not leave."""


@pytest.mark.parametrize("name", ["bc3e-row", "sec-lr", "residual-sip", "residual-sealed-ring", "coreset", "gp"])
def test_an_error_in_any_round_leaves_as_a_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """In the second ask of every site: what the run then says, and what it keeps, is clean as well."""
    settings, nodes = plant(tmp_path, CASES[name])

    def failing(ask: type[Payload]) -> Callable[[Any, Any], Payload]:
        handler = handler_of(ask)

        def answer(payload: Any, site: Any) -> Payload:
            if site.round > 1:
                raise CanaryError(f"{CANARY}: {site.directory}")
            return handler(payload, site)

        return answer

    monkeypatch.setattr(clients.dispatch, "handler_of", failing)
    replies: list[Message] = []
    outcome = outcome_of(settings, nodes, tamper=recorder(replies))
    assert f"[{Fault.HANDLER_FAILED.slug}]" in outcome.text
    assert CANARY.lower() not in outcome.text.lower()
    assert len(replies) > len(SITES)
    assert not leaks(replies, tmp_path, planted(CASES[name]))
    assert b"CanaryError" not in bytes_of(replies)
    for site in SITES:
        log = (tmp_path / f"{CANARY}-home" / f"{CANARY}-out" / site / "errors.log").read_text()
        assert "CanaryError" in log


def test_what_the_center_keeps_of_a_refused_site_is_clean(tmp_path: Path) -> None:
    """The report of a run in which one site's data cannot be read."""
    settings, nodes = plant(tmp_path, CASES["sec-lr"])
    nodes[1]["data"] += "-gone"
    path = run_over(make_grid(settings, nodes), settings)
    assert server_app.REFUSALS
    assert list(load(path)[0].missing) == ["birch"]
    kept = b"".join(each.read_bytes() for each in path.rglob("*") if each.is_file() and "sites" not in each.parts)
    assert b"no-data-file" in kept
    assert CANARY.encode() not in kept
