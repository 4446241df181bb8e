"""Files of arrays and notes with a checksum over every byte: safetensors, with JSON in its header.

Any program that reads safetensors reads them. Beside the notes the header holds `sha256`, the hash of the whole file
with sixty-four zeros in the place of the hash itself.
"""

import hashlib
import json
import math
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import safetensors.numpy

from widetail.files._write import write_whole

MOST_HEADER_BYTES = 64_000_000
DEEPEST = 200  # brackets inside of brackets
MOST_DIGITS = 19  # of an integer

_NO_HASH = "0" * 64
_HASH = re.compile(rb'"sha256":"([0-9a-f]{64})"')
# a text that does not end goes to the end of the data: looking for its end from each quote would take forever
_TEXT = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*\\?(?:"|\Z)', re.DOTALL)
_NOT_BRACKETS = re.compile(rb"[^][{}]+")


class Contents(NamedTuple):
    """What a file holds.

    Attributes:
        arrays: by name.
        notes: by name, not parsed yet; `parse_json` does.
        is_sealed: whether there was a checksum, which was right then.
    """

    arrays: dict[str, np.ndarray]
    notes: dict[str, str]
    is_sealed: bool


def write_sealed(path: Path, arrays: dict[str, np.ndarray], notes: dict[str, Any], *, durable: bool = True) -> None:
    """Write arrays and JSON values to one file, whole or not at all, with a checksum."""
    texts = {name: json.dumps(note) for name, note in notes.items()}
    data = bytearray(safetensors.numpy.save(arrays, metadata={"sha256": _NO_HASH} | texts))
    place = data.index(f'"sha256":"{_NO_HASH}"'.encode()) + len('"sha256":"')
    data[place : place + 64] = hashlib.sha256(data).hexdigest().encode()
    write_whole(path, bytes(data), durable=durable)


def read_sealed(path: Path) -> Contents:
    """What `write_sealed` wrote; a ValueError if a bit of it has changed.

    Files of earlier versions have no checksum; `is_sealed` tells them from others.
    """
    data = path.read_bytes()
    size = int.from_bytes(data[:8], "little")
    if len(data) < 8 or size > len(data) - 8:
        raise ValueError("it is truncated, or a file of another kind")
    if size > MOST_HEADER_BYTES:
        raise ValueError(f"its header has {size} bytes, more than {MOST_HEADER_BYTES}")
    hashes = list(_HASH.finditer(data, 8, 8 + size))
    if len(hashes) > 1:
        raise ValueError("it has several checksums")
    for found in hashes:
        start, end = found.span(1)
        digest = hashlib.sha256(memoryview(data)[:start])
        digest.update(_NO_HASH.encode())
        digest.update(memoryview(data)[end:])
        if digest.hexdigest().encode() != found[1]:
            raise ValueError("its checksum is wrong: some of its bytes have changed since it was written")
    notes = parse_json(data[8 : 8 + size]).get("__metadata__", {})
    return Contents(safetensors.numpy.load(data), notes, bool(hashes))


def parse_json(text: str | bytes, *, finite: bool = True) -> Any:
    """JSON without names that stand twice, not nested without end, and of finite numbers unless told otherwise."""
    data = text.encode() if isinstance(text, str) else text
    depth = 0
    for bracket in _NOT_BRACKETS.sub(b"", _TEXT.sub(b"", data)):
        depth += 1 if bracket in b"[{" else -1
        if depth > DEEPEST:
            raise ValueError(f"more than {DEEPEST} brackets are inside of each other")
    return json.loads(
        data,
        object_pairs_hook=_without_repetition,
        parse_int=_integer,
        parse_float=_finite if finite else None,
        parse_constant=_finite if finite else None,
    )


@contextmanager
def damage_named(path: Path, what: str) -> Iterator[None]:
    """Whatever goes wrong with what a file says becomes a ValueError that names the file."""
    try:
        yield
    except OSError:  # of the disk, not of what the file says
        raise
    except Exception as error:  # its numbers may be anything, and constructors and LAPACK have many ways to say no
        raise ValueError(f"{str(path)!r} is not a {what}, or it is damaged: {error}") from error


def _without_repetition(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a name stands twice in its header")
    return found


def _integer(text: str) -> int:
    if len(text) > MOST_DIGITS:
        raise ValueError(f"an integer has {len(text)} digits")
    return int(text)


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"{text} is not a finite number")
    return value
