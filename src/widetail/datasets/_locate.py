"""Finding an archive: in the user's data folder, in the cache, or at its public source."""

import hashlib
import os
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from widetail.datasets._archives import Archive
from widetail.datasets._convert import Arrays, content_digest
from widetail.datasets._download import fetch, import_pooch
from widetail.datasets._errors import ChecksumError, DataUnavailableError

FOLDER_VARIABLE = "WIDETAIL_DATA"


def read(archive: Archive) -> Arrays:
    """The arrays of `archive`, checked, from the first place that has them."""
    with np.load(locate(archive), allow_pickle=False) as arrays:
        return {key: np.ascontiguousarray(arrays[key]) for key in arrays.files}


def locate(archive: Archive) -> Path:
    """Path of a checked copy of `archive`, downloaded and converted where there was none."""
    return _in_data_folder(archive) or _in_cache(archive) or _from_public_source(archive)


def cache_folder() -> Path:
    """Where downloads are kept between sessions."""
    return Path(import_pooch().os_cache("widetail"))


def _in_data_folder(archive: Archive) -> Path | None:
    named = os.environ.get(FOLDER_VARIABLE)
    if not named:
        return None
    folder = Path(named).expanduser()
    if not folder.is_dir():
        raise DataUnavailableError(
            f"the environment variable {FOLDER_VARIABLE} names {folder}, which is not a folder; "
            "mend it, or unset it to use the cache and downloads."
        )
    path = folder / archive.path
    if not path.exists():
        return None
    found = _file_sha256(path)
    if found != archive.sha256:
        raise ChecksumError(
            f"{path} has sha256 {found}, expected {archive.sha256}; replace the file, or unset "
            f"{FOLDER_VARIABLE} to use the cache and downloads."
        )
    return path


def _in_cache(archive: Archive) -> Path | None:
    """The cached archive, unless it was damaged; then it is made anew."""
    path = cache_folder() / archive.path
    if not path.exists():
        return None
    note = _checksum_note(path)
    expected = {archive.sha256} | ({note.read_text().strip()} if note.exists() else set())
    return path if _file_sha256(path) in expected else None


def _from_public_source(archive: Archive) -> Path:
    path = cache_folder() / archive.path
    raw_folder = cache_folder() / "raw" / archive.name
    raw_folder.mkdir(parents=True, exist_ok=True)
    try:
        raw_paths = [fetch(raw, raw_folder) for raw in archive.raw]
    except DataUnavailableError as error:
        raise DataUnavailableError(_how_to_do_without_network(archive, path, raw_folder, error)) from error
    try:
        arrays = archive.convert(raw_paths)
        _check_contents(archive, arrays)
    except Exception as error:
        _remove(raw_paths)
        raise ChecksumError(
            f"{archive.name}: the file from {archive.raw[0].url} does not hold the expected data: {error} "
            "The download was removed; try again, and if it happens again the public source has changed."
        ) from error
    _store(path, arrays)
    _remove(raw_paths)
    return path


def _check_contents(archive: Archive, arrays: Arrays) -> None:
    for key, content in archive.contents.items():
        found = content_digest(arrays[key][: content.rows])
        if found != content.digest:
            raise ChecksumError(f"{key!r}, {content.rows} rows, has the digest {found}, expected {content.digest}.")


def _store(path: Path, arrays: Mapping[str, np.ndarray]) -> None:
    """Write the archive and a note of its checksum; first under another name: nobody sees half a file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(f"{path.stem}.{os.getpid()}.unfinished.npz")
    np.savez_compressed(unfinished, allow_pickle=False, **arrays)
    _checksum_note(path).write_text(_file_sha256(unfinished) + "\n")
    unfinished.replace(path)


def _checksum_note(path: Path) -> Path:
    return path.with_name(f"{path.name}.sha256")


def _file_sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _remove(paths: list[Path]) -> None:
    for path in paths:
        path.unlink(missing_ok=True)


def _how_to_do_without_network(archive: Archive, path: Path, raw_folder: Path, error: Exception) -> str:
    folder = os.environ.get(FOLDER_VARIABLE)
    looked = f"not in the folder {folder}" if folder else f"{FOLDER_VARIABLE} is not set"
    originals = "\n".join(
        f"     {raw.url}\n       -> {raw_folder / raw.name}"
        + (f"  (sha256 {raw.sha256})" if raw.sha256 else "  (no published checksum; its values are checked)")
        for raw in archive.raw
    )
    return (
        f"{archive.name!r} is not on this machine ({looked}; not in the cache {path}), and {error}\n"
        "Without a network, do one of these:\n"
        f"  1. put the archive {archive.path} (sha256 {archive.sha256}) below a folder of your choice "
        f"and name that folder in the environment variable {FOLDER_VARIABLE};\n"
        f"  2. put the same archive at {path};\n"
        f"  3. download the original on another machine and put it here:\n{originals}"
    )
