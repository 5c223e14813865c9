"""A site's memory: a round starts from the state after the round before it, whatever was lost, or says it cannot."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from flwr.app import RecordDict
from hypothesis import given
from hypothesis import strategies as st

import clients.memory
from clients.memory import CONCLUDED, Arrays, Memory, MemoryStore
from protocols.wire.faults import Fault, SiteFault
from tests.support.examples import examples
from tests.support.payloads import through_bytes

SESSION = "77"


def step(state: RecordDict, folder: Path | None, number: int, session: str = SESSION) -> list[int]:
    """One ask: what it finds, and then leaves, is the list of rounds that were counted so far."""
    store = MemoryStore(state, folder, session)
    arrays = store.load(number)
    memory = Memory(arrays, "0")
    before: list[int] = memory["history"].tolist() if "history" in memory else []
    memory["history"] = np.array([*before, number], np.int64)
    store.store(number, arrays)
    return before


def after(number: int, state: RecordDict | None, folder: Path | None) -> RecordDict:
    """State and folder after the rounds 1 to `number`."""
    state = RecordDict() if state is None else state
    for each in range(1, number + 1):
        assert step(state, folder, each) == list(range(1, each))
    return state


def files(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.rglob("*") if path.is_file())


@pytest.fixture(params=["context", "file", "both"])
def kept(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[bool, Path | None]:
    """Whether the context survives, and the site's own folder."""
    return request.param != "file", None if request.param == "context" else tmp_path


def survived(state: RecordDict, kept: tuple[bool, Path | None]) -> RecordDict:
    """The context of the next process."""
    return through_bytes(state) if kept[0] else RecordDict()


# -- the normal course, and a round asked again -----------------------------------------------------------------------


def test_each_round_starts_where_the_last_one_ended(kept: tuple[bool, Path | None]) -> None:
    state = RecordDict()
    for number in range(1, 6):
        assert step(state, kept[1], number) == list(range(1, number))
        state = survived(state, kept)


@pytest.mark.parametrize("last", [1, 2, 5])
def test_a_round_asked_again_starts_from_the_state_before_it(kept: tuple[bool, Path | None], last: int) -> None:
    state = after(last, None, kept[1])
    for _ in range(3):
        state = survived(state, kept)
        assert step(state, kept[1], last) == list(range(1, last))
    assert step(survived(state, kept), kept[1], last + 1) == list(range(1, last + 1))


def test_rounds_in_which_the_site_was_not_asked_are_skipped(kept: tuple[bool, Path | None]) -> None:
    state = RecordDict()
    for number, before in (
        (1, []),
        (4, [1]),
        (4, [1]),
        (100_000, [1, 4]),
        (100_000, [1, 4]),
        (100_001, [1, 4, 100_000]),
    ):
        assert step(state, kept[1], number) == before
        state = survived(state, kept)


def test_further_back_than_two_rounds_is_refused(kept: tuple[bool, Path | None]) -> None:
    """To start afresh there would give another result without a word."""
    state = survived(after(5, None, kept[1]), kept)
    with pytest.raises(SiteFault, match="round 3 is asked, the memory begins with round 4") as caught:
        step(state, kept[1], 3)
    assert caught.value.fault is Fault.STALE_MEMORY


@examples(60)
@given(
    again=st.lists(st.integers(1, 3), min_size=1, max_size=6), lost=st.lists(st.booleans(), min_size=18, max_size=18)
)
def test_any_course_of_repeats_and_restarts_gives_the_same(
    again: list[int], lost: list[bool], tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder, state = tmp_path_factory.mktemp("site"), RecordDict()
    fates = iter(lost)
    for number, times in enumerate(again, start=1):
        for _ in range(times):
            assert step(state, folder, number) == list(range(1, number))
            if next(fates):
                state = RecordDict()


def test_a_lost_context_is_replaced_by_the_file(tmp_path: Path) -> None:
    after(3, None, tmp_path)
    assert step(RecordDict(), tmp_path, 4) == [1, 2, 3]


def test_a_lost_file_is_replaced_by_the_context(tmp_path: Path) -> None:
    state = after(3, None, tmp_path)
    for path in tmp_path.rglob("*.zip"):
        path.unlink()
    assert step(state, tmp_path, 4) == [1, 2, 3]
    assert files(tmp_path) == ["round-00004.zip"]
    assert step(RecordDict(), tmp_path, 5) == [1, 2, 3, 4]


def test_the_newer_of_context_and_file_counts(tmp_path: Path) -> None:
    old = through_bytes(after(2, None, tmp_path))
    step(through_bytes(old), tmp_path, 3)
    assert step(old, tmp_path, 4) == [1, 2, 3]


def test_when_all_is_lost_the_memory_is_empty(tmp_path: Path) -> None:
    after(3, None, None)
    assert step(RecordDict(), tmp_path, 4) == []


# -- asked everything again -------------------------------------------------------------------------------------------


def rebuilt(state: RecordDict, folder: Path | None, number: int, concluded: bool = False) -> MemoryStore:
    """A store in which the rounds before `number` have been gone through again, and nothing is kept of that yet."""
    store = MemoryStore(state, folder, SESSION)
    arrays = store.forget()
    assert bool(arrays) is concluded
    for each in range(1, number):
        Memory(arrays, "0")["history"] = np.array([-each])
        store.settle(each, arrays)
    return store


def full(*args: object, **kwargs: object) -> None:
    raise OSError(28, "No space left on device")


def test_what_is_forgotten_is_there_until_something_is_put_in_its_place(
    kept: tuple[bool, Path | None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """An ask that fails, or an answer that cannot be written down, costs the site no memory."""
    state = survived(after(4, None, kept[1]), kept)
    there, on_disk = through_bytes(state), files(kept[1]) if kept[1] else []
    store = rebuilt(state, kept[1], 3)
    if kept[1]:
        with monkeypatch.context() as patch:
            patch.setattr(clients.memory, "write_records", full)
            with pytest.raises(SiteFault):
                store.store(3, {"0/history": np.array([9])})
        assert files(kept[1])[-2:] == on_disk
    assert state == there
    assert step(survived(state, kept), kept[1], 5) == [1, 2, 3, 4]


@pytest.mark.parametrize("number", [2, 4, 7])
def test_what_was_gone_through_again_takes_the_place_of_all_that_was_kept(
    kept: tuple[bool, Path | None], number: int
) -> None:
    """The old generation of the round before is another one: it must not be mistaken for where this one began."""
    state = survived(after(4, None, kept[1]), kept)
    rebuilt(state, kept[1], number).store(number, {"0/history": np.array([number], np.int64)})
    if kept[1]:
        assert files(kept[1]) == [f"round-{number:05d}.zip"]
        with pytest.raises(SiteFault) as told:
            step(RecordDict(), kept[1], number)
        assert told.value.fault is Fault.STALE_MEMORY
    else:
        assert step(through_bytes(state), None, number) == [-(number - 1)]
    assert step(survived(state, kept), kept[1], number + 1) == [number]


def test_what_is_over_is_not_forgotten(kept: tuple[bool, Path | None]) -> None:
    state = survived(after(2, None, kept[1]), kept)
    store = MemoryStore(state, kept[1], SESSION)
    arrays = store.load(3)
    Memory(arrays, "1.2")[CONCLUDED] = np.array(True)
    store.store(3, arrays)
    state = survived(state, kept)
    assert list(MemoryStore(state, kept[1], SESSION).forget()) == [f"1.2/{CONCLUDED}"]
    rebuilt(state, kept[1], 5, concluded=True).store(5, {f"1.2/{CONCLUDED}": np.array(True)})
    assert list(MemoryStore(survived(state, kept), kept[1], SESSION).load(6)) == [f"1.2/{CONCLUDED}"]


# -- whose memory, and which ------------------------------------------------------------------------------------------


def test_another_session_is_another_memory(kept: tuple[bool, Path | None]) -> None:
    state = survived(after(3, None, kept[1]), kept)
    assert step(state, kept[1], 4, session="78") == []


def test_a_second_session_leaves_the_files_of_the_first(tmp_path: Path) -> None:
    state = after(3, None, tmp_path)
    step(state, tmp_path, 1, session="78")
    assert step(state, tmp_path, 4) == [1, 2, 3]


def test_lanes_are_separate(tmp_path: Path) -> None:
    state = RecordDict()
    store = MemoryStore(state, tmp_path, SESSION)
    arrays = store.load(1)
    for place, lane in enumerate(("0", "0.0", "0.1", "1", "10")):
        Memory(arrays, lane)["x/y"] = np.array([place])
    Memory(arrays, "0")["gone"] = np.zeros(2)
    del Memory(arrays, "0")["gone"]
    store.store(1, arrays)
    for source in (MemoryStore(state, None, SESSION), MemoryStore(RecordDict(), tmp_path, SESSION)):
        found = source.load(2)
        for place, lane in enumerate(("0", "0.0", "0.1", "1", "10")):
            memory = Memory(found, lane)
            assert dict(memory).keys() == {"x/y"}
            assert len(memory) == 1
            assert memory["x/y"].tolist() == [place]
        assert "x/y" not in Memory(found, "2")
        assert len(Memory(found, "2")) == 0


@pytest.mark.parametrize("dtype", ["bool", "uint8", "uint64", "int64", "float32", "float64"])
@pytest.mark.parametrize("shape", [(), (0,), (2, 0), (3, 2)])
def test_arrays_are_remembered_bit_for_bit(tmp_path: Path, dtype: str, shape: tuple[int, ...]) -> None:
    values = np.random.default_rng(0).integers(0, 2, shape).astype(dtype)
    if dtype.startswith("float"):
        values = values + np.array(np.nan if values.size % 2 else -0.0, dtype)
    state = RecordDict()
    store = MemoryStore(state, tmp_path, SESSION)
    arrays = store.load(1)
    Memory(arrays, "0")["a name, with anything: \N{SNOWMAN}/../x.npy"] = values
    store.store(1, arrays)
    for source in (MemoryStore(through_bytes(state), None, SESSION), MemoryStore(RecordDict(), tmp_path, SESSION)):
        (found,) = Memory(source.load(2), "0").values()
        assert (found.dtype, found.shape, found.tobytes()) == (values.dtype, values.shape, values.tobytes())


def test_what_cannot_be_remembered_is_an_error_and_changes_nothing(tmp_path: Path) -> None:
    state = after(1, None, tmp_path)
    store = MemoryStore(state, tmp_path, SESSION)
    arrays = store.load(2)
    Memory(arrays, "0")["names"] = np.array(["a", None], object)
    with pytest.raises(TypeError, match="arrays of object cannot be encoded"):
        store.store(2, arrays)
    assert files(tmp_path) == ["round-00000.zip", "round-00001.zip"]
    assert step(state, tmp_path, 2) == [1]


def test_a_remembered_array_cannot_be_changed_in_place(kept: tuple[bool, Path | None]) -> None:
    """Else the state before the round would change with it, and the round could not be asked again."""
    state = survived(after(2, None, kept[1]), kept)
    arrays = MemoryStore(state, kept[1], SESSION).load(3)
    with pytest.raises(ValueError, match="read-only"):
        Memory(arrays, "0")["history"] += 1


# -- on the disk ------------------------------------------------------------------------------------------------------


def test_nothing_is_written_when_there_is_nothing_to_remember(tmp_path: Path) -> None:
    state = RecordDict()
    for number in (1, 2):
        store = MemoryStore(state, tmp_path / "site", SESSION)
        store.store(number, store.load(number))
    assert not (tmp_path / "site").exists()
    assert not state


def look(state: RecordDict, folder: Path | None, number: int) -> list[int]:
    """One ask that remembers nothing new; what it finds."""
    store = MemoryStore(state, folder, SESSION)
    arrays = store.load(number)
    found: list[int] = Memory(arrays, "0")["history"].tolist()
    store.store(number, arrays)
    return found


def test_rounds_that_remember_nothing_new_write_nothing(kept: tuple[bool, Path | None], tmp_path: Path) -> None:
    """The next one, and one asked again, begin with what there is."""
    state = after(2, None, kept[1])
    there, on_disk = through_bytes(state), files(tmp_path)
    for number in (3, 4, 4, 5):
        assert look(state, kept[1], number) == [1, 2]
    assert (state, files(tmp_path)) == (there, on_disk)
    assert step(survived(state, kept), kept[1], 2) == [1], "as far back as before"
    assert step(survived(state, kept), kept[1], 6) == [1, 2]


def test_a_round_that_changes_nothing_the_second_time_takes_back_the_first(kept: tuple[bool, Path | None]) -> None:
    state = survived(after(3, None, kept[1]), kept)
    assert look(state, kept[1], 3) == [1, 2]
    assert step(survived(state, kept), kept[1], 4) == [1, 2]


@pytest.mark.parametrize("lost", ["context", "file"])
def test_a_round_that_changes_nothing_restores_what_was_lost(tmp_path: Path, lost: str) -> None:
    state = after(2, None, tmp_path)
    if lost == "context":
        state = RecordDict()
    else:
        for path in tmp_path.rglob("*.zip"):
            path.unlink()
    assert look(state, tmp_path, 3) == [1, 2]
    assert step(state, None, 4) == [1, 2]
    assert step(RecordDict(), tmp_path, 4) == [1, 2]


def test_a_memory_that_was_emptied_stays_empty(kept: tuple[bool, Path | None]) -> None:
    state = survived(after(2, None, kept[1]), kept)
    store = MemoryStore(state, kept[1], SESSION)
    store.load(3)
    store.store(3, {})
    state = survived(state, kept)
    assert MemoryStore(state, kept[1], SESSION).load(4) == {}
    assert step(state, kept[1], 3) == [1, 2]


def test_only_two_generations_stay_on_the_disk(tmp_path: Path) -> None:
    after(5, None, tmp_path)
    assert files(tmp_path) == ["round-00004.zip", "round-00005.zip"]


def test_a_crash_before_the_rename_leaves_the_old_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    state = after(2, None, tmp_path)

    def crash(self: Path, target: Path) -> Path:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Path, "replace", crash)
        with pytest.raises(KeyboardInterrupt):
            step(through_bytes(state), tmp_path, 3)
    assert step(RecordDict(), tmp_path, 3) == [1, 2]
    assert step(state, tmp_path, 4) == [1, 2, 3]
    assert files(tmp_path) == ["round-00003.zip", "round-00004.zip"], "what the crash left is gone"


def test_a_full_disk_is_a_fault_and_leaves_the_old_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    state = after(2, None, tmp_path)

    with monkeypatch.context() as patch:
        patch.setattr(clients.memory, "write_records", full)
        with pytest.raises(SiteFault) as caught:
            step(state, tmp_path, 3)
    assert caught.value.fault is Fault.OUTPUT_NOT_WRITTEN
    assert step(state, tmp_path, 3) == [1, 2]


def damage(path: Path, how: str) -> None:
    data = path.read_bytes()
    middle = len(data) // 3
    path.write_bytes(
        {
            "empty": b"",
            "short": data[:50],
            "truncated": data[:-1],
            "text": b"not an archive",
            "flipped": data[:middle] + bytes([data[middle] ^ 255]) + data[middle + 1 :],
        }[how]
    )


DAMAGES = ["empty", "short", "truncated", "text", "flipped"]


@pytest.mark.parametrize("how", DAMAGES)
def test_a_damaged_file_is_a_fault_where_nothing_else_serves(tmp_path: Path, how: str) -> None:
    """The older generation is not taken in its place: the site would go astray without a word."""
    after(3, None, tmp_path)
    damage(tmp_path / f"memory-{SESSION}" / "round-00003.zip", how)
    with pytest.raises(SiteFault, match=r"round-00003\.zip cannot be read") as caught:
        step(RecordDict(), tmp_path, 4)
    assert caught.value.fault is Fault.STALE_MEMORY


@pytest.mark.parametrize("how", DAMAGES)
def test_a_damaged_file_does_not_matter_where_the_context_serves(tmp_path: Path, how: str) -> None:
    state = after(3, None, tmp_path)
    for path in tmp_path.rglob("*.zip"):
        damage(path, how)
    assert step(state, tmp_path, 4) == [1, 2, 3]


@pytest.mark.parametrize("how", DAMAGES)
def test_a_damaged_file_of_the_round_that_is_asked_again_is_passed_over(tmp_path: Path, how: str) -> None:
    after(3, None, tmp_path)
    damage(tmp_path / f"memory-{SESSION}" / "round-00003.zip", how)
    assert step(RecordDict(), tmp_path, 3) == [1, 2]
    assert step(RecordDict(), tmp_path, 4) == [1, 2, 3]


def test_files_of_other_names_are_left_alone(tmp_path: Path) -> None:
    after(3, None, tmp_path)
    for name in ("round-backup.zip", "notes.txt"):
        (tmp_path / f"memory-{SESSION}" / name).write_bytes(b"mine")
    assert step(RecordDict(), tmp_path, 4) == [1, 2, 3]
    assert {"round-backup.zip", "notes.txt"} < set(files(tmp_path))


def test_numbers_become_arrays() -> None:
    arrays: Arrays = {}
    Memory(arrays, "0")["x"] = 3  # type: ignore[assignment]
    assert isinstance(arrays["0/x"], np.ndarray)
