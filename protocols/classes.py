"""Class lists on the wire: their limits, and the union of the sites' lists.

What that reveals: the names of the classes that a site has, even of a class with a single row, but not how many rows
have a class. The other sites learn the classes of the run, and from a site's model the classes of that site.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from numerics.shared.classes import sort_classes, union_of_classes

if TYPE_CHECKING:
    from protocols.wire.payload import Payload

MOST_CLASSES = 100
"""Most classes of a run."""
LONGEST_CLASS = 64
"""Most characters of a class's name."""
_YES_OR_NO = (("n", "y"), ("no", "yes"), ("f", "t"), ("false", "true"))


class ClassListError(ValueError):
    """Error: the sites' class lists have no usable union. The message is one sentence that says what to do."""


def check_classes(payload: Payload, classes: Sequence[str]) -> None:
    """Check a site's class list, the field `classes`: in order, each once, printable, not too many; empty for amounts.

    Raises
    ------
    PayloadError
        If it is not.
    """
    from protocols.wire.payload import PayloadError  # it loads Flower, which checks of files do without

    sound = all(0 < len(label) <= LONGEST_CLASS and label.isprintable() for label in classes)
    if not sound or len(classes) > MOST_CLASSES or tuple(classes) != sort_classes(classes):
        raise PayloadError(
            payload.title(),
            "classes",
            f"expected {MOST_CLASSES} classes at most, in order, of {LONGEST_CLASS} characters",
        )


def agree_on_classes(lists: Mapping[str, Sequence[str]], target: str) -> tuple[str, ...]:
    """Return the class list of a run, the union of the sites' lists; empty if all sites have amounts.

    Parameters
    ----------
    lists : Mapping of sequence of str
        By site; empty for amounts.
    target : str
        Name of the target, for messages.

    Raises
    ------
    ClassListError
        If some sites have classes and some amounts; if there is one class, or too many; or if two sites write a class
        in different ways, such as upper and lower case, or one has numbers where another has words.

    Examples
    --------
    >>> agree_on_classes({"north": ("a", "b"), "south": ("b", "c")}, "kind")
    ('a', 'b', 'c')
    >>> agree_on_classes({"north": ("a", "b"), "south": ()}, "kind")
    Traceback (most recent call last):
    protocols.classes.ClassListError: the target 'kind' holds classes at north and amounts at south; set
    task=regression or task=classification
    """
    amounts, classes = [name for name in lists if not lists[name]], [name for name in lists if lists[name]]
    if amounts and classes:
        raise ClassListError(
            f"the target {target!r} holds classes at {classes[0]} and amounts at {amounts[0]}; set task=regression or"
            " task=classification"
        )
    agreed = union_of_classes(lists.values())
    if len(agreed) == 1:
        raise ClassListError(
            f"the target {target!r} has one class at all sites, {agreed[0]!r}; there is nothing to learn: name another"
        )
    if len(agreed) > MOST_CLASSES:
        raise ClassListError(
            f"the target {target!r} has {len(agreed)} classes over all sites, more than {MOST_CLASSES}; name them alike"
            " at all sites"
        )
    _check_spelling(lists, agreed, target)
    _check_codings(lists, target)
    return agreed


def _check_spelling(lists: Mapping[str, Sequence[str]], agreed: Sequence[str], target: str) -> None:
    """Refuse a class in two spellings; a site that has both tells them apart."""
    spellings: dict[str, str] = {}
    for label in agreed:
        known = spellings.setdefault(_spelling(label), label)
        if known != label and not any(known in own and label in own for own in lists.values()):
            first, other = (next(name for name, own in lists.items() if each in own) for each in (known, label))
            raise ClassListError(
                f"the target {target!r} has a class {known!r} at {first} and {label!r} at {other}, which would be two:"
                " write them alike"
            )


def _spelling(label: str) -> str:
    """Return what case, spaces and equal characters of Unicode do not change, and ``1.0`` for ``1`` and ``01``."""
    text = " ".join(unicodedata.normalize("NFKC", label).casefold().split())
    try:
        return str(float(text))
    except ValueError:
        return text


def _check_codings(lists: Mapping[str, Sequence[str]], target: str) -> None:
    """Refuse 0 and 1 at a site with no and yes at another, and true and false with these."""
    codings = {name: coding for name, own in lists.items() if (coding := _coding(own))}
    for name, coding in codings.items():
        for other, another in codings.items():
            both_pairs = coding in _YES_OR_NO and another in _YES_OR_NO and coding != another
            if both_pairs or (coding == ("numbers",) and another != coding):
                first, second = (" and ".join(map(repr, lists[each][:2])) for each in (name, other))
                raise ClassListError(
                    f"the target {target!r} has the classes {first} at {name} and {second} at {other}, which would all"
                    " be different: write them alike"
                )


def _coding(labels: Sequence[str]) -> tuple[str, ...]:
    """Return the pair for yes and no in some words, else whether two or more classes are all numbers or all words."""
    if (pair := tuple(label.casefold() for label in labels)) in _YES_OR_NO:
        return pair
    if len(labels) >= 2 and all(label.isdecimal() for label in labels):
        return ("numbers",)
    words = len(labels) >= 2 and not any(map(str.isdecimal, "".join(labels)))
    return ("words",) if words else ()
