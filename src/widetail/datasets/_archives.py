"""The archives of `archives.toml`, with their checksums and the public sources of the originals.

Two kinds of checksum are used. `sha256` is that of the archive in a `WIDETAIL_DATA` folder. An archive
made on this machine from a public source cannot have the same bytes (compressors differ), so there the
downloaded file has a published sha256, or, where none is known, the values read from it are compared
with those of the checked archive.
"""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from widetail.datasets import _convert
from widetail.datasets._convert import Convert


@dataclass(frozen=True)
class RawFile:
    """One file of a public source; `sha256` is None where no trustworthy checksum of the file is known."""

    url: str
    sha256: str | None

    @property
    def name(self) -> str:
        """File name, the last part of the address."""
        return self.url.rsplit("/", 1)[-1]


@dataclass(frozen=True)
class Content:
    """The digest that the first `rows` rows of an array must have (see `content_digest`)."""

    rows: int
    digest: str


@dataclass(frozen=True)
class Archive:
    """One compressed NumPy archive.

    Attributes:
        path: where it lies below a data folder or below the cache.
        sha256: checksum of the copy in a data folder.
        raw: files of the public source.
        convert: turns those files into the arrays of the archive.
        contents: what the converted arrays must contain.
    """

    path: str
    sha256: str
    raw: tuple[RawFile, ...]
    convert: Convert
    contents: Mapping[str, Content] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """File name without folder and ending."""
        return self.path.rsplit("/", 1)[-1].removesuffix(".npz")


def _archive(group: str, name: str, entry: Mapping[str, Any]) -> Archive:
    contents = {key: Content(**entry[key]) for key in ("x", "y", "x_test", "y_test") if key in entry}
    is_table = "features" in entry
    return Archive(
        path=entry.get("path", f"{group}/{name}.npz"),
        sha256=entry["sha256"],
        raw=tuple(RawFile(file["url"], file.get("sha256")) for file in entry["raw"]),
        convert=_convert.uci_table(entry["features"]) if is_table else getattr(_convert, entry["convert"]),
        contents=contents,
    )


_LISTED = tomllib.loads(Path(__file__).with_name("archives.toml").read_text(encoding="utf-8"))
UCI_ARCHIVES, IMAGE_ARCHIVES = (
    {name: _archive(group, name, entry) for name, entry in _LISTED[group].items()} for group in ("uci", "images")
)
