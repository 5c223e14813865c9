"""Labels in the fusion center's own files as places in the class list of a run."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from jaxtyping import Int64, Shaped

from numerics.shared.classes import places_of
from strategies.errors import FusionError


def class_places(
    labels: Shaped[np.ndarray, "t"], classes: Sequence[str], target: str, rows: str = "test rows"
) -> Int64[np.ndarray, "t"]:
    """Return the place of each label of the center's rows in the class list.

    Parameters
    ----------
    labels : ndarray
        ``(t,)`` texts, or whole numbers.
    classes : sequence of str
        The class list.
    target, rows : str
        Names of the target and of the rows in messages.

    Raises
    ------
    FusionError
        If a label is not in the list.

    Examples
    --------
    >>> class_places(np.array(["b", "a"], object), ("a", "b"), "kind"), class_places(np.ones(1), ("0", "1"), "ill")
    (array([1, 0]), array([1]))
    """
    texts = [f"{each:.15g}" if isinstance(each, float) else str(each) for each in labels.tolist()]
    known = set(classes)
    for text in texts:
        if text not in known:
            raise FusionError(
                f"the center's {rows} have the class {text!r} of {target!r}, which no site has: leave them out, or name"
                " the class as the sites do"
            )
    return places_of(texts, classes)
