"""Class lists on the wire: their limits, and the union of the sites' lists.

What that reveals: the names of the classes that a site has, even of a class with a single row, but not how many rows
have a class. The other sites learn the classes of the run, and from a site's model the classes of that site.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from numerics.shared.classes import sort_classes, union_of_classes

if TYPE_CHECKING:
    from protocols.wire.payload import Payload

MOST_CLASSES = 100
"""Most classes of a run."""
LONGEST_CLASS = 64
"""Most characters of a class's name."""


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
        in upper and lower case.

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
    _check_case(lists, agreed, target)
    return agreed


def _check_case(lists: Mapping[str, Sequence[str]], agreed: Sequence[str], target: str) -> None:
    """Refuse a class in upper and lower case; a site that has both tells them apart."""
    spellings: dict[str, str] = {}
    for label in agreed:
        known = spellings.setdefault(label.casefold(), label)
        if known != label and not any(known in own and label in own for own in lists.values()):
            first, other = (next(name for name, own in lists.items() if each in own) for each in (known, label))
            raise ClassListError(
                f"the target {target!r} has a class {known!r} at {first} and {label!r} at {other}, which would be two:"
                " write them alike"
            )
