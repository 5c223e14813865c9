"""The budget of a site's data over all runs: a new run, a restart, a copy of the file give a center nothing anew."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from clients.budget import FOLDER, NAME, Book, Budget
from clients.data.fingerprint import Fingerprint, fingerprint
from consilience.cli import app
from protocols.bc3e.payloads import EStep, Survey
from protocols.budget import DEFAULT, KINDS, Limit
from protocols.wire.faults import Fault, SiteFault
from tests.support.site_client import RealSite

SURVEY = Survey("row", "salt")


def rows(first: int = 0, n: int = 30) -> pd.DataFrame:
    labels = np.arange(n) % 3
    names = [f"case-{number}" for number in range(first, first + n)]
    return pd.DataFrame({"case": names, "class_a": labels, "class_b": labels[::-1], "cluster_x": labels})


def site(folder: Path, policy: str = "", run: int = 1, **node: Any) -> RealSite:
    data = folder / "rows.csv"
    if not data.exists():
        rows().to_csv(data, index=False)
    (folder / "policy.toml").write_text(policy)
    about = {"site": "a", "data": str(data), "site-output-dir": str(folder / "own"), "id": "case"}
    about |= {"policy": str(folder / "policy.toml"), **node}
    return RealSite(about, {"protocol": "bc3e"}, run_id=run)


def spent(folder: Path) -> Mapping[str, int]:
    (account,) = Book.read(folder / "own" / FOLDER).accounts.values()
    return account.all


def test_every_kind_is_counted_before_an_answer_leaves(tmp_path: Path) -> None:
    for run in (1, 2):
        answers = [site(tmp_path, run=run).fault(number, SURVEY) for number in (1, 2)]
        assert answers == [0, 0]
    assert spent(tmp_path).keys() == {"runs", "asks", "bytes-in", "bytes-out"}
    assert (spent(tmp_path)["runs"], spent(tmp_path)["asks"]) == (2, 4)
    e_step = EStep(0, True, 0, np.zeros(0), np.ones(3), ("cluster_x",), (np.full((3, 3), 1 / 3),), 20, 1e-6, 1, 0.0)
    assert site(tmp_path, run=2).fault(3, e_step) == 0
    assert spent(tmp_path)["models"] == 1
    assert site(tmp_path, run=3).fault(1) == 0, "who asks for the name only asks nothing about the data"
    assert spent(tmp_path)["runs"] == 2


@pytest.mark.parametrize("span", ["day", "all"])
@pytest.mark.parametrize("kind", ["runs", "asks", "bytes-in", "bytes-out"])
def test_what_is_spent_is_refused_in_every_run(tmp_path: Path, kind: str, span: str) -> None:
    assert site(tmp_path).fault(1, SURVEY) == 0
    most = spent(tmp_path)[kind]
    policy = f"[budget]\n{kind} = {{ {span} = {most} }}"
    assert site(tmp_path, policy, run=2).fault(1, SURVEY) == Fault.BUDGET_SPENT
    assert site(tmp_path, run=2).fault(1, SURVEY) == 0
    if kind == "runs":
        assert site(tmp_path, policy, run=1).fault(1, SURVEY) == 0, "a run that has begun goes on"


def test_a_day_ends_and_a_clock_that_is_set_back_begins_none() -> None:
    account, limits = Budget(None, {}, DEFAULT, 1).account().on("2026-11-23"), {"asks": Limit(day=2, all=5)}
    assert not account.add({"asks": 2}, limits)
    assert "2 of 2 a day" in account.on("2026-11-22").add({"asks": 1}, limits)
    assert not account.on("2026-11-24").add({"asks": 2}, limits)
    assert "4 of 5 in all" in account.on("2026-11-25").add({"asks": 2}, limits)


# -- whose budget it is -----------------------------------------------------------------------------------------------


def account_of(folder: Path, data: Path, **config: Any) -> Any:
    """Ask about a file; return its account."""
    budget = Budget(folder, {"data": str(data), **config}, DEFAULT, 1)
    budget.charge({"asks": 1})
    return budget.account()


def test_a_copy_of_the_rows_has_the_same_account(tmp_path: Path) -> None:
    """In another file, order, format, with another order of columns, or with numbers written otherwise."""
    frame = rows().assign(weight=np.arange(30) / 2, ward="01")
    frame.loc[3, "weight"] = None
    paths = [tmp_path / name for name in ("a.csv", "b.csv", "c.parquet", "d.csv.gz")]
    frame.to_csv(paths[0], index=False)
    frame.sample(frac=1.0, random_state=0).to_csv(paths[1], index=False, float_format="%.3f")
    frame[frame.columns[::-1]].to_parquet(paths[2])
    frame.to_csv(paths[3], index=False)
    assert len({fingerprint({"data": str(path)}).digest for path in paths}) == 1
    assert [account_of(tmp_path, path).all["asks"] for path in paths] == [1, 2, 3, 4]


def test_a_file_that_grows_goes_on_with_its_account_and_says_what_is_new(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    rows(n=30).to_csv(path, index=False)
    account_of(tmp_path, path)
    grown = account_of(tmp_path, path, id="case")
    assert (grown.n_rows, grown.all["asks"]) == (30, 2), "the same file, by whatever its rows are known"
    rows(n=35).assign(class_a=0).to_csv(path, index=False)
    grown = account_of(tmp_path, path, id="case")
    assert (grown.n_rows, grown.new_rows, grown.all["asks"]) == (35, 5, 3), "by their names: other cells have changed"
    rows(first=100).to_csv(path, index=False)
    assert account_of(tmp_path, path, id="case").all["asks"] == 1, "not one row of before"


def test_a_file_with_few_new_rows_is_not_asked_about(tmp_path: Path) -> None:
    """Neither when rows are added nor when they are gone; sums before and after would tell of them."""

    def asked(n: int, policy: str = "", *, first: int = 0, repeated: int = 0) -> int:
        frame = rows(first, n)
        pd.concat([frame, frame[:repeated]]).to_csv(tmp_path / "rows.csv", index=False)
        return site(tmp_path, policy).fault(1, SURVEY)

    assert asked(30) == 0
    assert [asked(n) for n in (31, 34, 29, 31)] == [Fault.FEW_NEW_ROWS] * 4
    assert asked(30, first=2) == Fault.FEW_NEW_ROWS, "two are new, two are gone"
    assert (asked(30), asked(35), asked(34)) == (0, 0, Fault.FEW_NEW_ROWS)
    assert asked(41, "min-rows = 7") == Fault.FEW_NEW_ROWS
    assert asked(34, "new-rows = 1") == 0


def test_a_file_with_rows_of_two_accounts_has_spent_what_both_have(tmp_path: Path) -> None:
    for place, first in enumerate((0, 100)):
        rows(first).to_csv(tmp_path / f"{place}.csv", index=False)
        assert account_of(tmp_path, tmp_path / f"{place}.csv").all["asks"] == 1
    pd.concat([rows(0), rows(100)]).to_csv(tmp_path / "both.csv", index=False)
    assert account_of(tmp_path, tmp_path / "both.csv").all["asks"] == 3
    assert account_of(tmp_path, tmp_path / "0.csv").all["asks"] == 4


def test_a_file_that_cannot_be_read_has_the_account_of_its_place(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("a,b\n1\n")
    assert [account_of(tmp_path, path).all["asks"] for _ in range(2)] == [1, 2]
    rows().to_csv(path, index=False)
    assert account_of(tmp_path, path).all["asks"] == 3
    path.unlink()
    assert account_of(tmp_path, path).all["asks"] == 4


def test_a_sample_of_many_rows_is_compared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("clients.data.fingerprint.MOST_KEPT", 200)
    path = tmp_path / "rows.csv"
    rows(n=4000).to_csv(path, index=False)
    account_of(tmp_path, path, id="case")
    rows(n=5000).to_csv(path, index=False)
    grown = account_of(tmp_path, path, id="case")
    assert grown.all["asks"] == 2
    assert abs(grown.new_rows - 1000) < 4 * 5000 * np.sqrt(0.2 * 0.8 / 160)


def test_rows_that_occur_twice_are_counted_where_they_are_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    """They have one hash; and of a sample, its last row is compared, too."""
    several, once = (Fingerprint(digest, n, np.array([1, 2], np.uint64)) for digest, n in (("a", 12), ("b", 3)))
    assert once.rows_changed(several) == several.rows_changed(once) == 9
    monkeypatch.setattr("clients.data.fingerprint.MOST_KEPT", 4)
    assert Fingerprint("c", 2, np.array([2, 8], np.uint64)).new_rows(np.array([1, 3, 5, 8], np.uint64)) == 1


# -- files and processes ----------------------------------------------------------------------------------------------


def test_two_asks_at_once_are_both_counted(tmp_path: Path) -> None:
    limits = {**DEFAULT, "asks": Limit(15, 15)}
    refused = []

    def ask(run: int) -> None:
        try:
            Budget(tmp_path, {"data": "hospital.data:rows"}, limits, run).charge({"asks": 1})
        except SiteFault as fault:
            refused.append(fault.fault)

    threads = [threading.Thread(target=ask, args=(run,)) for run in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert refused == [Fault.BUDGET_SPENT] * 5
    assert Budget(tmp_path, {"data": "hospital.data:rows"}, limits, 1).account().all["asks"] == 15


@pytest.mark.parametrize("damage", ["", "{}", "[1]", '{"accounts": {"a": {"source": 1, "colour": 2}}, "files": {}}'])
def test_a_damaged_budget_closes_the_site(tmp_path: Path, damage: str) -> None:
    assert site(tmp_path).fault(1, SURVEY) == 0
    (tmp_path / "own" / FOLDER / NAME).write_text(damage)
    assert site(tmp_path).fault(1, SURVEY) == Fault.OUTPUT_NOT_WRITTEN


def test_limits_without_a_directory_are_refused(tmp_path: Path) -> None:
    policy = "[budget]\nruns = { day = 3 }"
    homeless = site(tmp_path, policy)
    del homeless.context.node_config["site-output-dir"]
    assert homeless.fault(1, SURVEY) == Fault.BAD_CONFIGURATION


def test_a_simulated_site_counts_nothing(tmp_path: Path) -> None:
    rows().to_csv(tmp_path / "a.csv", index=False)
    node = {"partition-id": 0, "num-partitions": 1, "site-output-dir": str(tmp_path / "own")}
    simulated = RealSite(node, {"protocol": "bc3e", "data": str(tmp_path), "scenario": "", "output-dir": str(tmp_path)})
    assert simulated.fault(1, SURVEY) == 0
    assert not list(tmp_path.rglob(NAME))


# -- the command ------------------------------------------------------------------------------------------------------


def test_the_command_shows_what_is_spent_and_check_tells_it_before(tmp_path: Path) -> None:
    assert site(tmp_path).fault(1, SURVEY) == 0
    (tmp_path / "policy.toml").write_text("[budget]\nruns = { all = 1 }")
    own, policy = str(tmp_path / "own"), str(tmp_path / "policy.toml")
    shown = CliRunner().invoke(app, ["budget", own, "--policy", policy])
    assert shown.exit_code == 0
    assert all(f"  {kind} " in shown.output for kind in KINDS)
    assert "rows: 30" in shown.output
    assert "in all 1 of 1   SPENT" in shown.output
    assert CliRunner().invoke(app, ["budget", f"{own}/{FOLDER}/{NAME}", "--policy", policy]).output == shown.output
    said = ["check", str(tmp_path / "rows.csv"), "--protocol", "bc3e", "--policy", policy, "--set", "id=case"]
    checked = CliRunner().invoke(app, [*said, "--set", f"site-output-dir={own}"])
    assert "in all 1 of 1   SPENT" in checked.output, checked.output
    assert CliRunner().invoke(app, ["budget", str(tmp_path)]).exit_code == 1
