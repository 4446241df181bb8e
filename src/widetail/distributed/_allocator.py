"""The memory allocator of a worker."""

import ctypes
import functools
import os

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # names of glibc's malloc.h
_BYTES = 32 << 20


@functools.cache
def reuse_freed_memory() -> None:
    """Let glibc keep freed arrays of up to 32 MB for the next ones, once per process.

    Dask's nannies set `MALLOC_TRIM_THRESHOLD_` to 64 kB, which hands every array back to the system as soon as it is
    freed, and the page faults of getting it again take several times as long as the work on a small tile. Does nothing
    where nobody set it, or where there is no glibc.
    """
    if "MALLOC_TRIM_THRESHOLD_" not in os.environ:
        return
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        return
    mallopt(_MMAP_THRESHOLD, _BYTES)
    mallopt(_TRIM_THRESHOLD, _BYTES)
