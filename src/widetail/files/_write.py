"""Files that are whole or not there."""

import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def whole_file(path: Path, *, durable: bool = True) -> Iterator[Path]:
    """A temporary neighbour to write to; it is moved into place at the end, and removed when anything goes wrong.

    Durable or not, the file survives the end of the process; for a durable one this waits until it is on the disk.
    """
    temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex[:12]}{path.suffix}")
    try:
        yield temporary
        if durable:
            with temporary.open("rb") as file:
                os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def write_whole(path: Path, data: bytes, *, durable: bool = True) -> None:
    """Write to a temporary neighbour and move it into place: a crash leaves the old file, or none."""
    with whole_file(path, durable=durable) as temporary:
        temporary.write_bytes(data)
