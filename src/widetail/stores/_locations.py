"""Folders on a local or shared disk, and behind the URLs that fsspec knows (s3://, gs://, ...).

Paths do not go through fsspec: its local files can be seen half written and are not waited for until they are on the
disk, and `widetail kernel` writes NumPy's format where fsspec is not installed.
"""

import dataclasses
import os
import posixpath
import shutil
from pathlib import Path
from typing import Any

from widetail.files import write_whole


@dataclasses.dataclass(frozen=True)
class Location:
    """A path or URL; what is written to it is whole or not there.

    Attributes:
        address: a local path, or a URL with a scheme.
        options: arguments of the fsspec file system (credentials, endpoints), for URLs.
    """

    address: str
    options: dict[str, Any] = dataclasses.field(default_factory=dict)

    @classmethod
    def of(cls, location: str | Path, options: dict[str, Any] | None = None) -> "Location":
        """A local path is made absolute: workers have working directories of their own."""
        if not isinstance(location, (str, Path)):
            raise ValueError(f"store must be a path or a URL; got {location!r}.")
        if "://" in str(location):
            return cls(str(location).rstrip("/"), options or {})
        if options:
            raise ValueError(f"storage_options are for URLs such as s3://bucket/K.zarr; {str(location)!r} is a path.")
        return cls(os.path.abspath(location))

    @property
    def is_remote(self) -> bool:
        """Whether it is behind a URL."""
        return "://" in self.address

    @property
    def path(self) -> Path:
        """The local path."""
        return Path(self.address)

    def beside(self, suffix: str) -> "Location":
        """The neighbour whose name has `suffix` behind it."""
        return Location(self.address + suffix, self.options)

    def inside(self, name: str) -> "Location":
        """What is called `name` in this folder."""
        return Location(posixpath.join(self.address, name) if self.is_remote else str(self.path / name), self.options)

    def exists(self) -> bool:
        """Whether there is a file or folder."""
        if self.is_remote:
            system, path = self._system()
            system.invalidate_cache()
            return bool(system.exists(path))
        return self.path.exists()

    def read(self, name: str) -> bytes | None:
        """A small file in this folder, None where there is none."""
        try:
            if self.is_remote:
                system, path = self._system()
                return system.cat_file(f"{path}/{name}")
            return (self.path / name).read_bytes()
        except FileNotFoundError:
            return None

    def write(self, name: str, data: bytes, *, durable: bool = True) -> None:
        """Write a small file into this folder, which is made where it is missing."""
        if self.is_remote:  # an object appears when it is whole
            system, path = self._system()
            system.makedirs(path, exist_ok=True)
            system.pipe_file(f"{path}/{name}", data)
        else:
            self.path.mkdir(parents=True, exist_ok=True)
            write_whole(self.path / name, data, durable=durable)

    def read_all(self, prefix: str) -> dict[str, bytes]:
        """The small files of this folder whose names begin with `prefix`."""
        if self.is_remote:
            system, path = self._system()
            system.invalidate_cache()
            if not system.exists(path):
                return {}
            names = [posixpath.basename(entry) for entry in system.ls(path, detail=False)]
        elif self.path.is_dir():
            names = os.listdir(self.path)
        else:
            return {}
        found = {name: self.read(name) for name in names if name.startswith(prefix)}
        return {name: data for name, data in found.items() if data is not None}

    def zarr_store(self, *, read_only: bool = False) -> Any:
        """What Zarr opens: the path, or a store made of the URL and its options.

        Zarr itself takes some URLs (file://) for paths, and then refuses the options.
        """
        if not self.is_remote:
            return self.address
        import zarr.storage

        return zarr.storage.FsspecStore.from_url(self.address, storage_options=self.options, read_only=read_only)

    def remove(self) -> None:
        """Remove the file or folder, if it is there."""
        if self.is_remote:
            if self.exists():
                system, path = self._system()
                system.rm(path, recursive=True)
        elif self.path.is_dir():
            shutil.rmtree(self.path)
        else:
            self.path.unlink(missing_ok=True)

    def _system(self) -> tuple[Any, str]:
        import fsspec

        return fsspec.url_to_fs(self.address, **self.options)
