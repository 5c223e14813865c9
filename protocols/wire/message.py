"""The content of a Flower message: an envelope and any number of parcels.

The envelope of an ask has the session (the run whose memory a site uses), the round and the seed. The envelope of an
answer has the site's name, the round, and a fault code (0: none). A parcel is a payload and its lane. Lanes are
conversations that share their rounds, such as the repetitions of an experiment or the restarts of a fit (``"2"``,
``"2.0"``).

An ask to a site that has lost its memory begins with its history: all asks of earlier rounds of the run. The site
answers them again, for itself, and so restores its memory.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeGuard, cast

from flwr.app import ArrayRecord, ConfigRecord, RecordDict

from protocols import registry
from protocols.wire.faults import slug_of
from protocols.wire.payload import FieldSpec, Payload, PayloadError, decode, encode, shorten, specs

ENVELOPE = "envelope"
_ASK_KEYS: dict[str, type] = {"session": str, "round": int, "seed": int}
_ANSWER_KEYS: dict[str, type] = {"site": str, "round": int, "fault": int}
_SESSION = re.compile(r"[A-Za-z0-9_-]{0,64}")
"""Characters of a session, whose name becomes part of a file name at the site."""
_ROUND = re.compile(r"[1-9][0-9]{0,8}")
_LANE = re.compile(r"[0-9]{1,9}(\.[0-9]{1,9}){0,7}")


@dataclass(frozen=True)
class Parcel:
    """A payload in a lane.

    Examples
    --------
    >>> from protocols.secure_aggregation.payloads import Join
    >>> Parcel("0", Join("weights"))
    Parcel(lane='0', payload=Join(total='weights'))
    """

    lane: str
    payload: Payload


Past = tuple[int, Sequence[Parcel]]
"""An earlier round and its asks."""


@dataclass(frozen=True)
class Ask:
    """Content of a message from the fusion center to a site.

    Examples
    --------
    >>> from protocols.secure_aggregation.payloads import Join
    >>> ask = Ask("session", round=1, seed=0, parcels=[Parcel("0", Join("weights"))])
    >>> read_ask(write_ask(ask)).parcels == ask.parcels
    True
    """

    session: str
    round: int
    seed: int
    parcels: Sequence[Parcel]
    history: Sequence[Past] = ()


@dataclass(frozen=True)
class Answer:
    """Content of a site's reply.

    Examples
    --------
    >>> refusal = Answer("north", round=1, fault=13, parcels=())
    >>> read_answer(write_answer(refusal), expected=()).fault
    13
    """

    site: str
    round: int
    fault: int
    parcels: Sequence[Parcel]


def write_ask(ask: Ask) -> RecordDict:
    """Encode an ask."""
    past = [(str(number), parcel) for number, parcels in ask.history for parcel in parcels]
    return _write({"session": ask.session, "round": ask.round, "seed": ask.seed}, ask.parcels, past)


def write_answer(answer: Answer) -> RecordDict:
    """Encode an answer."""
    return _write({"site": answer.site, "round": answer.round, "fault": int(answer.fault)}, answer.parcels)


def read_ask(content: RecordDict) -> Ask:
    """Decode and check an ask."""
    envelope = _envelope(content, _ASK_KEYS)
    if not _SESSION.fullmatch(envelope["session"]):
        raise PayloadError(ENVELOPE, "session", "holds other characters than letters, digits, hyphen and underscore")
    for key in ("round", "seed"):
        if envelope[key] < 0:
            raise PayloadError(ENVELOPE, key, "is negative")
    past: dict[int, list[Parcel]] = {}
    parcels: list[Parcel] = []
    for number, parcel in _parcels(content, lambda _, title: find(title)):
        if not _LANE.fullmatch(parcel.lane):
            raise PayloadError(parcel.payload.title(), "lane", "is not numbers with dots between them")
        if not number:
            parcels.append(parcel)
        elif _ROUND.fullmatch(number) and max(past, default=1) <= int(number) < envelope["round"] and not parcels:
            past.setdefault(int(number), []).append(parcel)
        else:
            raise PayloadError(parcel.payload.title(), "round", "is not one before this, in order")
    return Ask(parcels=parcels, history=tuple(past.items()), **envelope)


def read_envelope(content: RecordDict) -> Answer:
    """Decode the envelope of an answer alone: site, round and fault."""
    return Answer(parcels=(), **_envelope(content, _ANSWER_KEYS))


def read_answer(content: RecordDict, expected: Sequence[Parcel]) -> Answer:
    """Decode and check an answer to the asks of `expected`: each with its own kind of answer, lane by lane.

    Raises
    ------
    PayloadError
        If it is malformed, or answers something else than was asked.
    """
    answer = read_envelope(content)
    if answer.fault:
        return answer
    wanted = [ask.payload.answer for ask in expected]

    def answer_to(place: int, title: str) -> type[Payload]:
        kind = wanted[place] if place < len(wanted) else None
        if kind is None or title != kind.title():
            raise PayloadError(
                shorten(title),
                "payload",
                f"is not the answer to {expected[place].payload.title()}"
                if place < len(expected)
                else "answers nothing that was asked",
            )
        return kind

    numbered = _parcels(content, answer_to)
    parcels = [parcel for _, parcel in numbered]
    if len(parcels) != len(expected):
        raise PayloadError(ENVELOPE, "parcels", f"expected {len(expected)}, got {len(parcels)}")
    for (number, got), ask in zip(numbered, expected, strict=True):
        if number:
            raise PayloadError(got.payload.title(), "round", "belongs to the whole answer, not to a part")
        if got.lane != ask.lane:
            raise PayloadError(got.payload.title(), "lane", f"expected {ask.lane!r}, got {shorten(got.lane)!r}")
    return replace(answer, parcels=parcels)


def find(title: str) -> type[Payload]:
    """Return the payload class called ``protocol.Name``; only ``payloads`` modules of the registry are searched.

    Examples
    --------
    >>> find("secure_aggregation.Join").__name__
    'Join'
    """
    protocol, _, name = title.partition(".")
    if (registry.exists(protocol) or protocol in registry.SHARED) and name.isidentifier():
        cls = getattr(registry.room(protocol, "payloads"), name, None)
        if isinstance(cls, type) and issubclass(cls, Payload) and cls.title() == title:
            return cls
    raise PayloadError(shorten(title), "payload", "is not a payload of any protocol")


def asks_of(protocol: str) -> list[type[Payload]]:
    """Return the asks of a protocol, sorted by title.

    Examples
    --------
    >>> [ask.__name__ for ask in asks_of("secure_aggregation")]
    ['Deal', 'Hide', 'Join', 'Show']
    """
    names = vars(registry.room(protocol, "payloads"))
    classes = {each for each in names.values() if isinstance(each, type) and issubclass(each, Payload) and each.answer}
    return sorted((each for each in classes if each.title().startswith(f"{protocol}.")), key=lambda each: each.title())


def ledger_lines(
    content: RecordDict, parcels: Sequence[Parcel], *, round_number: int, direction: str, site: str
) -> Iterable[dict[str, Any]]:
    """Yield the ledger's lines of a message: one for the envelope and one for every payload, with the bytes of every
    field.

    Bytes are those of the encoded records: an array's numbers as they are, and the serialized ConfigRecord with the
    scalars. Flower's own message header is not counted. Lines of an answer also have its `digest`, as ``sha256``; the
    envelope of a refusal has its code as ``fault``. Site and fusion center write these lines from the same records, so
    that they can be compared.
    """
    base = {"round": round_number, "direction": direction, "site": site}
    signed = direction == "from_site"
    code = cast("int", _record(content, ENVELOPE).get("fault", 0))
    yield {
        **base,
        "lane": "",
        "payload": ENVELOPE,
        "fields": {},
        "bytes": _scalar_bytes(content, ENVELOPE),
        **({"sha256": digest(content, ENVELOPE)} if signed else {}),
        **({"fault": slug_of(code)} if code else {}),
    }
    for place, parcel in enumerate(parcels):
        arrays = _array(content, f"{place}.arrays") or ArrayRecord()
        described = {
            name: _describe(name, spec, parcel.payload, arrays) for name, spec in specs(type(parcel.payload)).items()
        }
        total = _scalar_bytes(content, f"{place}.scalars") + sum(len(array.data) for array in arrays.values())
        line = {**base, "lane": parcel.lane, "payload": parcel.payload.title(), "fields": described, "bytes": total}
        yield {**line, "sha256": digest(content, str(place))} if signed else line


def refused_line(content: RecordDict, *, round_number: int, site: str) -> dict[str, Any]:
    """Return the ledger's line of an answer that broke its contract: its content is unknown, its size is not."""
    base = {"round": round_number, "direction": "from_site", "site": site}
    return {**base, "lane": "", "payload": "refused", "fields": {}, "bytes": encoded_bytes(content)}


def digest(content: RecordDict, part: str) -> str:
    """Return the SHA-256 of the envelope, or of a parcel, whatever the order of its records.

    It is computed of ``{"arrays": [[name, dtype, shape, bytes], ...], "payload": title, "scalars": {...}}`` in JSON as
    Python writes it with sorted keys and without spaces, arrays in the order of their names; a line feed; and the
    arrays' numbers as they cross, one array after the other. A parcel's lane is no part of it.

    Parameters
    ----------
    content : RecordDict
        A message that keeps its contract.
    part : str
        ``envelope``, or the parcel's place.
    """
    scalars = dict(_record(content, ENVELOPE if part == ENVELOPE else f"{part}.scalars"))
    title = ENVELOPE if part == ENVELOPE else cast("list[str]", scalars.pop("parcel"))[1]
    arrays = dict(sorted((_array(content, f"{part}.arrays") or {}).items()))
    described = [[name, array.dtype, list(array.shape), len(array.data)] for name, array in arrays.items()]
    about = {"arrays": described, "payload": title, "scalars": scalars}
    hash_ = hashlib.sha256(json.dumps(about, sort_keys=True, separators=(",", ":")).encode() + b"\n")
    for array in arrays.values():
        hash_.update(array.data)
    return hash_.hexdigest()


def encoded_bytes(content: RecordDict) -> int:
    """Return the bytes of all records of a message, of any kind, as the ledger counts them."""
    arrays = sum(len(array.data) for record in content.array_records.values() for array in record.values())
    return arrays + sum(_scalar_bytes(content, name) for name in (*content.config_records, *content.metric_records))


def _config(content: RecordDict, name: str) -> ConfigRecord | None:
    """Return the ConfigRecord of that name; `content.config_records` would copy all of them at each access."""
    record = content.get(name)
    return record if isinstance(record, ConfigRecord) else None


def _record(content: RecordDict, name: str) -> ConfigRecord:
    """Return the ConfigRecord of that name, which is known to exist."""
    return cast("ConfigRecord", content[name])


def _array(content: RecordDict, name: str) -> ArrayRecord | None:
    record = content.get(name)
    return record if isinstance(record, ArrayRecord) else None


def _scalar_bytes(content: RecordDict, name: str) -> int:
    return len(content[name].deflate())


def _describe(name: str, spec: FieldSpec, payload: Payload, arrays: ArrayRecord) -> dict[str, Any]:
    value = getattr(payload, name)
    if spec.kind == "array":
        return {"shape": list(value.shape), "dtype": value.dtype.name, "bytes": len(arrays[name].data)}
    if spec.kind == "arrays":
        size = sum(len(arrays[f"{name}.{place}"].data) for place in range(len(value)))
        dtypes = sorted({item.dtype.name for item in value}) or spec.dtypes[:1]
        return {"shape": [list(item.shape) for item in value], "dtype": " and ".join(dtypes), "bytes": size}
    if spec.kind == "strs":
        return {"shape": [len(value)], "dtype": "str", "bytes": sum(len(item.encode()) for item in value)}
    size = len(value.encode()) if spec.kind == "str" else {"bool": 1}.get(spec.kind, 8)
    return {"shape": [], "dtype": spec.kind, "bytes": size}


def _write(envelope: dict[str, Any], parcels: Sequence[Parcel], past: Sequence[tuple[str, Parcel]] = ()) -> RecordDict:
    """Return the records of a message; parcels of the past come first, each with its round in the label."""
    content = RecordDict({ENVELOPE: ConfigRecord(envelope)})
    for place, (number, parcel) in enumerate([*past, *(("", parcel) for parcel in parcels)]):
        scalars, arrays = encode(parcel.payload)
        scalars["parcel"] = [parcel.lane, parcel.payload.title(), *([number] if number else [])]
        content[f"{place}.scalars"] = scalars
        content[f"{place}.arrays"] = arrays
    return content


def _envelope(content: RecordDict, keys: dict[str, type]) -> dict[str, Any]:
    record = _config(content, ENVELOPE)
    if record is None:
        raise PayloadError(ENVELOPE, ENVELOPE, "is missing")
    for key, kind in keys.items():
        if type(record.get(key)) is not kind:
            raise PayloadError(ENVELOPE, key, f"is missing or not of type {kind.__name__}")
    for key in record:
        if key not in keys:
            raise PayloadError(ENVELOPE, shorten(key), "is not a field of the envelope")
    return {key: record[key] for key in keys}


def _parcels(content: RecordDict, class_of: Callable[[int, str], type[Payload]]) -> list[tuple[str, Parcel]]:
    """Return the parcels in order, each with the round in its label; empty: the message's own round."""
    count, odd = divmod(len(content) - 1, 2)
    names = {f"{place}.{part}" for place in range(count) for part in ("scalars", "arrays")}
    if odd or set(content) != names | {ENVELOPE}:
        raise PayloadError(ENVELOPE, "parcels", "are not the records of such a message")
    parcels = []
    for place in range(count):
        scalars = _config(content, f"{place}.scalars")
        arrays = _array(content, f"{place}.arrays")
        label = None if scalars is None else scalars.get("parcel")
        if scalars is None or arrays is None or not _is_label(label):
            raise PayloadError(ENVELOPE, "parcels", f"parcel {place} has no lane and title")
        lane, title, number = (*label, "")[:3]
        rest = ConfigRecord({key: value for key, value in scalars.items() if key != "parcel"})
        parcels.append((number, Parcel(lane, decode(class_of(place, title), rest, arrays))))
    return parcels


def _is_label(label: object) -> TypeGuard[list[str]]:
    """Return whether a label holds the lane and title of a parcel; one of an earlier round also holds the round."""
    if not isinstance(label, list) or not all(isinstance(each, str) for each in label):
        return False
    return len(label) == 2 or (len(label) == 3 and bool(label[2]))
