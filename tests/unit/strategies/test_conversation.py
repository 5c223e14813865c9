"""Conversations without a grid: composed, flattened to single requests, answered by hand."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocols.bc3e.payloads import EStep, Statistics, Survey
from protocols.wire.message import Parcel
from strategies.bc3e.em import EM, Settings
from strategies.bc3e.layout import Layout
from strategies.conversation import (
    Answers,
    Broadcast,
    Conversation,
    Lanes,
    Request,
    Tell,
    addressed,
    flatten,
    gather,
    parcels_for,
    sort_answers,
    together,
)

Tree = int | dict[str, "Tree"]
"""A conversation's shape: a number of rounds, or several conversations by lane."""

trees = st.recursive(
    st.integers(0, 4),
    lambda inner: st.dictionaries(st.integers(0, 9).map(str), inner, min_size=1, max_size=4),
    max_leaves=8,
)


def survey(text: str) -> Survey:
    return Survey("row", text)


def leaf(path: str, rounds: int) -> Conversation[list[Answers]]:
    """Asks `rounds` times, each time something else, and returns all that it was told."""
    told: list[Answers] = []
    while len(told) < rounds:
        answers = yield Broadcast(survey(f"{path}:{len(told)}"))
        told.append(answers)
    return told


def grow(tree: Tree, path: str = "") -> Conversation[Any]:
    if isinstance(tree, int):
        return leaf(path, tree)
    return together({name: grow(inner, f"{path}.{name}" if path else name) for name, inner in tree.items()})


def depth(tree: Tree) -> int:
    """Rounds that the longest conversation takes."""
    return tree if isinstance(tree, int) else max((depth(inner) for inner in tree.values()), default=0)


def expected(tree: Tree, path: str = "") -> Any:
    """What the conversation returns when every ask is answered by its own text."""
    if isinstance(tree, int):
        return [{"a": f"{path}:{number}"} for number in range(tree)]
    return {name: expected(inner, f"{path}.{name}" if path else name) for name, inner in tree.items()}


def converse(conversation: Conversation[Any], answer: Any) -> tuple[Any, int]:
    """Carry a conversation to its end by hand; returns its result and how many rounds it took."""
    rounds, told = 0, None
    while True:
        try:
            request = conversation.send(told)  # type: ignore[arg-type]
        except StopIteration as stop:
            return stop.value, rounds
        told, rounds = answer(request), rounds + 1


def echo(request: Request) -> Answers:
    """Every single request is answered by the text that it asked with."""
    flat = flatten(request)
    return gather(request, {lane: {"a": each.ask.salt} for lane, each in flat.items()})  # type: ignore[union-attr]


@given(trees)
def test_conversations_that_end_at_different_times_share_their_rounds(tree: Tree) -> None:
    result, rounds = converse(grow(tree), echo)
    assert result == expected(tree)
    assert rounds == depth(tree)


@given(trees)
def test_flatten_names_every_lane_once_and_gather_puts_the_answers_back(tree: Tree) -> None:
    requests: list[Request] = []

    def answer(request: Request) -> Answers:
        requests.append(request)
        return echo(request)

    converse(grow(tree), answer)
    for number, request in enumerate(requests):
        flat = flatten(request)
        # A lane's path is what its conversation was told it is: so answers cannot reach another lane.
        assert {lane: each.ask.salt for lane, each in flat.items()} == {lane: f"{lane}:{number}" for lane in flat}  # type: ignore[union-attr]
        assert all(not isinstance(each, Lanes) for each in flat.values())


def test_a_conversation_that_asks_nothing_ends_at_once() -> None:
    assert converse(together({}), echo) == ({}, 0)
    assert converse(together({"0": leaf("0", 0), "1": leaf("1", 0)}), echo) == ({"0": [], "1": []}, 0)


def test_results_come_in_the_order_of_the_lanes_not_of_their_ends() -> None:
    result, _ = converse(together({"2": leaf("2", 3), "0": leaf("0", 1), "1": leaf("1", 2)}), echo)
    assert list(result) == ["2", "0", "1"]


def test_an_error_in_one_lane_ends_all() -> None:
    def failing() -> Conversation[None]:
        yield Broadcast(survey("x"))
        raise ArithmeticError("no")

    conversation = together({"0": leaf("0", 3), "1": failing()})
    request = next(conversation)
    with pytest.raises(ArithmeticError):
        conversation.send(echo(request))


# -- some at a time ---------------------------------------------------------------------------------------------------


def seats(rounds: list[int], at_once: int) -> list[list[str]]:
    """Which lanes ask in which round, when one that ends makes room for the next in order."""
    waiting = [(str(lane), left) for lane, left in enumerate(rounds) if left]
    seated: list[tuple[str, int]] = []
    asked = []
    while seated or waiting:
        free = (at_once or len(rounds)) - len(seated)
        seated, waiting = seated + waiting[:free], waiting[free:]
        asked.append([lane for lane, _ in seated])
        seated = [(lane, left - 1) for lane, left in seated if left > 1]
    return asked


@given(st.lists(st.integers(0, 4), max_size=8), st.integers(0, 4))
def test_so_many_conversations_are_open_and_one_that_ends_makes_room_for_the_next(
    rounds: list[int], at_once: int
) -> None:
    asked: list[list[str]] = []

    def answer(request: Request) -> Answers:
        asked.append(list(flatten(request)))
        return echo(request)

    lanes = {str(lane): leaf(str(lane), left) for lane, left in enumerate(rounds)}
    result, _ = converse(together(lanes, at_once), answer)
    assert [sorted(each) for each in asked] == [sorted(each) for each in seats(rounds, at_once)]
    assert all(len(each) <= (at_once or len(rounds)) for each in asked)
    assert list(result) == list(lanes)
    assert result == {
        str(lane): [{"a": f"{lane}:{number}"} for number in range(left)] for lane, left in enumerate(rounds)
    }


@pytest.mark.parametrize("at_once", [1, 2, 3])
def test_a_conversation_that_asks_nothing_takes_no_place(at_once: int) -> None:
    lanes = {"0": leaf("0", 0), "1": leaf("1", 2), "2": leaf("2", 0), "3": leaf("3", 1)}
    result, rounds = converse(together(lanes, at_once), echo)
    assert rounds == (3 if at_once == 1 else 2)
    assert {lane: len(told) for lane, told in result.items()} == {"0": 0, "1": 2, "2": 0, "3": 1}


def test_a_conversation_is_not_begun_before_it_is_its_turn() -> None:
    begun: list[str] = []

    def conversation(lane: str) -> Conversation[str]:
        begun.append(lane)
        yield Broadcast(survey(lane))
        return lane

    def answer(request: Request) -> Answers:
        assert list(flatten(request)) == begun[-1:]
        return echo(request)

    result, rounds = converse(together({lane: conversation(lane) for lane in "012"}, at_once=1), answer)
    assert result == {"0": "0", "1": "1", "2": "2"}
    assert rounds == len(begun) == 3


# -- who is asked what ------------------------------------------------------------------------------------------------


def test_parcels_go_to_those_addressed_in_the_order_of_the_lanes() -> None:
    one, two, three = survey("1"), survey("2"), survey("3")
    flat = flatten(Lanes({"0": Broadcast(one), "1": Lanes({"5": Tell({"a": (two, three)}), "6": Tell({"b": two})})}))
    assert parcels_for(flat, "a") == [Parcel("0", one), Parcel("1.5", two), Parcel("1.5", three)]
    assert parcels_for(flat, "b") == [Parcel("0", one), Parcel("1.6", two)]
    assert parcels_for(flat, None) == [Parcel("0", one)]
    assert addressed(flat) == {"a", "b"}


@given(st.permutations(["a", "b", "c", "d"]), st.sets(st.sampled_from(["a", "b", "c", "d"])))
def test_answers_come_by_site_in_order_of_name_whoever_was_first(order: list[str], missing: set[str]) -> None:
    flat = flatten(Lanes({"0": Broadcast(survey("x")), "1": Tell({"a": (survey("y"),), "c": survey("z")})}))
    replies = {
        site: [Parcel("0", survey(site)), *([Parcel("1", survey(f"{site}1"))] if site in ("a", "c") else [])]
        for site in order
        if site not in missing
    }
    answers = sort_answers(flat, replies)
    assert list(answers) == ["0", "1"]
    assert list(answers["0"]) == sorted(replies)
    assert answers["0"] == {site: survey(site) for site in replies}
    # A tuple is answered by a tuple, one ask by one answer.
    wanted = {"a": (survey("a1"),), "c": survey("c1")}
    assert answers["1"] == {site: answer for site, answer in wanted.items() if site in replies}


# -- a whole fit by hand ----------------------------------------------------------------------------------------------


def test_a_fit_needs_no_grid() -> None:
    """One clustering that follows the votes exactly, answered from the closed form of its statistics."""
    none = {"a": np.zeros(0, np.int64)}
    layout = Layout(
        k=2, bits=30, n_clusters={"m": 2}, holders={"m": ["a"]}, common=frozenset({"m"}), instances={"a": 8},
        n_classifiers=1, shared_rows=none, shared_index=none, n_shared=0, classifiers={},
        sites_with_truth=frozenset(),
    )  # fmt: skip
    asked: list[EStep] = []

    def site(request: Request) -> Mapping[str, Statistics]:
        assert isinstance(request, Tell)
        ask = request.asks["a"]
        assert isinstance(ask, EStep)
        asked.append(ask)
        mass = np.diag([2**32, 2**32])
        answer = Statistics(8, (mass,), np.full(2, -(2**33)), (min(len(asked), 3) - 10) * 2**30)
        request.check("a", answer)
        return {"a": answer}

    fit, rounds = converse(EM(layout, Settings(accelerate=False), 0, {}).run(), site)
    assert fit.converged
    assert rounds == fit.rounds == 4
    assert fit.bounds == [-9.0, -8.0, -7.0, -7.0]
    np.testing.assert_array_equal(asked[0].beta[0], np.full((2, 2), 0.5))
    np.testing.assert_array_equal(fit.beta["m"], np.eye(2))
    assert fit.alpha[0] == fit.alpha[1]
    assert [ask.step for ask in asked] == [0, 1, 2, 3]
