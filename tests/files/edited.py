"""Model files changed by hand, with a checksum that is right again."""

import hashlib
import json
import struct

MODEL = "widetail_model"
MODEL_1 = "widetail"  # of version 1, whose files have no checksum


def parts(data: bytes) -> tuple[dict, bytes]:
    """The header of a file, and its arrays."""
    (size,) = struct.unpack("<Q", data[:8])
    return json.loads(data[8 : 8 + size]), data[8 + size :]


def joined(header: bytes, arrays: bytes) -> bytes:
    """A file with the checksum of what it holds; the header has zeros in its place."""
    data = struct.pack("<Q", len(header)) + header + arrays
    return data.replace(b"0" * 64, hashlib.sha256(data).hexdigest().encode(), 1)


def with_header(data: bytes, change, note: str = MODEL) -> bytes:
    """The file after `change` of its description."""
    header, arrays = parts(data)
    described = json.loads(header["__metadata__"][note])
    replaced = change(described)
    described = described if replaced is None else replaced
    text = described if isinstance(described, str) else json.dumps(described)
    metadata = header["__metadata__"] | {note: text} | ({"sha256": "0" * 64} if note != MODEL_1 else {})
    return joined(json.dumps(header | {"__metadata__": metadata}, separators=(",", ":")).encode(), arrays)


def fields(described: dict) -> dict:
    """Parameters of the estimator, and what it learned."""
    return {name: part["dict"] for name, part in described["model"]["fields"].items()}
