"""Downloads that survive a broken transfer."""

import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from widetail.datasets._archives import RawFile
from widetail.datasets._errors import ChecksumError, DataUnavailableError
from widetail.progress import reporter

_CHUNK = 1 << 16
_RANGE_NOT_SATISFIABLE = 416
_PARTIAL_CONTENT = 206
_CONNECT_AND_READ_SECONDS = (10, 60)


def import_pooch() -> Any:
    """The pooch package, or an error that says how to install it."""
    try:
        import pooch
    except ImportError as error:
        raise ImportError(
            "downloading and caching data sets needs pooch: install it with `pip install widetail[data]`, "
            "or name a folder that holds the data in the environment variable WIDETAIL_DATA."
        ) from error
    return pooch


def fetch(raw: RawFile, folder: Path) -> Path:
    """Download `raw` into `folder`, or return the copy that is already there with the right checksum.

    An unfinished transfer stays in the folder as `<name>.part`, and the next call goes on where it stopped.
    """
    pooch = import_pooch()
    import requests

    logger = pooch.get_logger()
    level_before = logger.level
    logger.setLevel("WARNING")  # it would advise to write down the sha256 of files that we check by their values
    try:
        path = pooch.retrieve(
            raw.url,
            known_hash=raw.sha256,
            fname=raw.name,
            path=folder,
            downloader=ResumingDownloader(folder / f"{raw.name}.part"),
        )
    except requests.RequestException as error:
        raise DataUnavailableError(f"the download of {raw.url} failed: {error}") from error
    except ValueError as error:
        raise ChecksumError(
            f"{raw.url} was downloaded, but its sha256 is not the expected {raw.sha256}: {error}"
        ) from error
    finally:
        logger.setLevel(level_before)
    return Path(path)


@dataclass
class ResumingDownloader:
    """A downloader for pooch that keeps what arrived and asks only for the rest.

    Attributes:
        part: file of the bytes received so far.
        attempts: how often a broken transfer is taken up again before giving up.
        pause: seconds before the second attempt; doubled before each further one.
    """

    part: Path
    attempts: int = 4
    pause: float = 0.5

    def __call__(self, url: str, output_file: str, pooch: Any) -> None:
        """Bring the content of `url` into `output_file`."""
        import requests

        for attempt in range(self.attempts):
            try:
                self._receive_rest(url)
                break
            except requests.RequestException as error:
                if attempt + 1 == self.attempts or _is_refusal(error):
                    raise
                time.sleep(self.pause * 2**attempt)
        # Moved away before the checksum is looked at: wrong bytes must not be resumed by the next call.
        os.replace(self.part, output_file)

    def _receive_rest(self, url: str) -> None:
        import requests

        done = self.part.stat().st_size if self.part.exists() else 0
        # Compressed transfers cannot be resumed by byte number.
        headers = {"Accept-Encoding": "identity"} | ({"Range": f"bytes={done}-"} if done else {})
        with requests.get(url, headers=headers, stream=True, timeout=_CONNECT_AND_READ_SECONDS) as response:
            if response.status_code == _RANGE_NOT_SATISFIABLE:
                self.part.unlink()
                raise requests.ConnectionError(f"{url} is shorter than what was received before; starting again.")
            response.raise_for_status()
            if response.status_code != _PARTIAL_CONTENT:
                done = 0  # the server sends everything from the start
            length = response.headers.get("Content-Length")
            total = done + int(length) if length is not None else None
            report = reporter(total is not None, f"{self.part.stem}, kB:")
            with self.part.open("ab" if done else "wb") as file:
                for chunk in response.iter_content(_CHUNK):
                    done += file.write(chunk)
                    report(done // 1000, (total or 0) // 1000)
            if total is not None and done < total:
                raise requests.ConnectionError(f"{url} broke off after {done} of {total} bytes.")


def _is_refusal(error: Any) -> bool:
    """Whether the server answered that asking again is of no use (any 4xx)."""
    return error.response is not None and 400 <= error.response.status_code < 500
