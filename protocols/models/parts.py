"""The objects of a model's schema as plain values, without constructing any of them.

skops constructs whatever its nodes name. Here a node is accepted only in the one form in which skops writes it, with a
listed type, and with the loader that belongs to the type: loaders for methods, functions, partials, operators, types
and random generators are not listed. Nodes have no ids, so that none can stand for another.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from protocols.models.archive import MOST_BYTES, Archive, ModelError, quote

TREE = "sklearn.tree._tree.Tree"
_DEEPEST = 40
_LONGEST_SCALAR = 1000
_LOADERS = {
    "builtins.str": "JsonNode",  # skops files None, numbers and text under this type
    "builtins.list": "ListNode",
    "builtins.tuple": "TupleNode",
    "builtins.dict": "DictNode",
    "numpy.ndarray": "NdArrayNode",
    TREE: "TreeNode",
}
_KEYS = {
    "JsonNode": {"content", "is_json"},
    "ListNode": {"content"},
    "TupleNode": {"content"},
    "DictNode": {"content", "key_types"},
    "ObjectNode": {"content"},
    "TreeNode": {"content", "__reduce__"},
}
_HEAD = {"__class__", "__module__", "__loader__"}
_TEXT_KEY = {"__class__": "str", "__module__": "builtins", "__loader__": "TypeNode"}


@dataclass(frozen=True)
class Part:
    """An object of the file.

    Attributes
    ----------
    type_name : str
        Module and class, such as ``sklearn.linear_model._base.LinearRegression``.
    state : Mapping[str, Any]
        Its attributes: plain values, arrays, lists, and other parts.
    arguments : object
        Arguments of its constructor; None for all but a `TREE`.
    """

    type_name: str
    state: Mapping[str, Any]
    arguments: Any = None

    @property
    def name(self) -> str:
        """The class's name alone."""
        return self.type_name.rpartition(".")[2]


def parse(archive: Archive, object_types: Collection[str]) -> Any:
    """Return the value that a file describes.

    Parameters
    ----------
    archive : Archive
        The file.
    object_types : collection of str
        Names of the accepted types, besides Python's own, arrays and `TREE`.

    Raises
    ------
    ModelError
        If it holds a node, a type or an array that is not accepted; names the type.
    """
    reader = _Reader(archive, object_types)
    value = reader.value(archive.schema)
    if reader.used != set(archive.arrays):
        raise ModelError("holds an array that no part of it uses")
    return value


@dataclass
class _Reader:
    archive: Archive
    object_types: Collection[str]
    used: set[str] = field(default_factory=set)
    array_bytes: int = 0
    depth: int = 0

    def value(self, node: Any) -> Any:
        name, loader = self._head(node)
        if loader == "NdArrayNode":
            return self._array(node)
        if set(node) != _HEAD | _KEYS[loader]:
            raise _malformed(loader)
        self.depth += 1
        if self.depth > _DEEPEST:
            raise ModelError("is nested too deeply")
        value = self._compound(name, loader, node)
        self.depth -= 1
        return value

    def _head(self, node: Any) -> tuple[str, str]:
        """Return type and loader of a node, if they are listed and belong together."""
        if not isinstance(node, dict):
            raise _malformed("node")
        module, class_name, loader = (node.get(key) for key in ("__module__", "__class__", "__loader__"))
        # Compared apart: skops imports the module, so "a.b" and "c" must not pass for "a" and "b.c".
        name = f"{module}.{class_name}"
        known = _LOADERS.get(name) or ("ObjectNode" if name in self.object_types else None)
        if known is None or name.rpartition(".")[0] != module:
            quoted = quote(name)
            raise ModelError(f"holds {quoted}, which is not on the list of models that are accepted", quoted)
        if loader != known:
            raise ModelError(f"holds {name} under the loader {quote(loader)}, and only {known} is accepted", name)
        return name, known

    def _compound(self, name: str, loader: str, node: dict[str, Any]) -> Any:
        content = node["content"]
        if loader == "JsonNode":
            return _scalar(content, node["is_json"])
        if loader in ("ListNode", "TupleNode"):
            if not isinstance(content, list):
                raise _malformed(loader)
            values = [self.value(item) for item in content]
            return values if loader == "ListNode" else tuple(values)
        if loader == "DictNode":
            return self._dictionary(content, node["key_types"])
        state = self.value(content)
        if loader == "ObjectNode" and state is None:
            state = {}  # skops writes an object without attributes so
        if not isinstance(state, dict):
            raise _malformed(loader)
        if loader == "ObjectNode":
            return Part(name, state)
        reduced = node["__reduce__"]
        if not isinstance(reduced, dict) or set(reduced) != {"args"}:
            raise _malformed(loader)
        return Part(name, state, self.value(reduced["args"]))

    def _dictionary(self, content: Any, key_types: Any) -> dict[str, Any]:
        keys = {"__class__": "list", "__module__": "builtins", "__loader__": "ListNode"}
        if not isinstance(content, dict) or key_types != {**keys, "content": [_TEXT_KEY] * len(content)}:
            raise _malformed("DictNode")
        return {key: self.value(item) for key, item in content.items()}

    def _array(self, node: dict[str, Any]) -> np.ndarray:
        if node.get("type") == "json" and set(node) == _HEAD | {"type", "content", "shape"}:
            return self._trees(node["content"], node["shape"])
        name = node.get("file")
        if set(node) != _HEAD | {"type", "file"} or node["type"] != "numpy" or not isinstance(name, str):
            raise _malformed("NdArrayNode")
        if name not in self.archive.arrays:
            raise ModelError("names an array that the file does not hold")
        array = self.archive.arrays[name]
        self.used.add(name)
        # skops reads the array anew at every mention: a small file must not become a large model.
        self.array_bytes += array.nbytes
        if self.array_bytes > MOST_BYTES:
            raise ModelError(f"is too large: its arrays take more than {MOST_BYTES} bytes")
        return array

    def _trees(self, content: Any, shape: Any) -> np.ndarray:
        """Return an array of objects, which skops writes item by item; in accepted models, columns of trees."""
        if not isinstance(content, list):
            raise _malformed("NdArrayNode")
        rows = [self.value(row) for row in content]
        size = self.value(shape)
        n_columns = len(rows[0]) if rows and isinstance(rows[0], list) else 1
        whole = isinstance(size, tuple) and all(type(length) is int for length in size)
        if not (whole and size == (len(rows), n_columns) and all(_holds_parts(row, n_columns) for row in rows)):
            raise ModelError("holds an array of objects that is not a column of trees")
        trees = np.empty((len(rows), n_columns), object)
        for place, row in enumerate(rows):
            trees[place] = row
        return trees


def _holds_parts(row: Any, n: int) -> bool:
    return isinstance(row, list) and len(row) == n > 0 and all(isinstance(each, Part) for each in row)


def _scalar(content: Any, is_json: Any) -> bool | int | float | str | None:
    if is_json is not True or not isinstance(content, str) or len(content) > _LONGEST_SCALAR:
        raise _malformed("JsonNode")
    try:
        value = json.loads(content)
    except (ValueError, RecursionError):
        raise _malformed("JsonNode") from None
    if value is not None and not isinstance(value, bool | int | float | str):
        raise _malformed("JsonNode")
    return value


def _malformed(what: str) -> ModelError:
    return ModelError(f"is not a skops file: its {what} is not as skops writes it")
