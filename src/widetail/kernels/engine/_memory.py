"""Memory: what a kernel needs, and what is free."""

import os
from pathlib import Path
from typing import Any

import numpy as np

from widetail.kernels._values import KernelValues


def kernel_bytes(shape: tuple[int, int], wanted: KernelValues, dtype: Any) -> int:
    """Bytes of the arrays that an evaluation returns."""
    count = sum(want is not None for want in wanted)
    return count * shape[0] * shape[1] * np.dtype(dtype).itemsize


def available_memory() -> int:
    """Bytes that can be allocated now without swapping."""
    meminfo = Path("/proc/meminfo")
    if meminfo.exists():
        for line in meminfo.read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def check_memory(shape: tuple[int, int], wanted: KernelValues, dtype: Any, max_memory: float | int | None) -> None:
    """Raise before anything is computed when the result cannot fit."""
    is_number = isinstance(max_memory, (int, float)) and not isinstance(max_memory, bool)
    if max_memory is not None and not (is_number and max_memory > 0):
        raise ValueError(f"max_memory must be a positive number of bytes, such as 4e9, or None; got {max_memory!r}.")
    needed = kernel_bytes(shape, wanted, dtype)
    limit = available_memory() if max_memory is None else max_memory
    if needed <= limit:
        return
    asked = " and ".join(name for name, want in zip(wanted._fields, wanted, strict=True) if want)
    ways = []
    if wanted.nngp and wanted.ntk:
        ways.append("ask for one kernel with get='nngp' or get='ntk'")
    if np.dtype(dtype).itemsize == 8:
        ways.append("use float32 inputs")
    ways.append("evaluate blocks of rows, kernel(x1[i:j], x2), and keep only what you need")
    ways.append("use a sparse model, which needs n x inducing points only")
    raise MemoryError(
        f"A {shape[0]} x {shape[1]} kernel ({asked}, {np.dtype(dtype)}) needs {needed / 1e9:.3g} GB, "
        f"but {'only' if max_memory is None else 'max_memory allows'} {limit / 1e9:.3g} GB"
        f"{' is free' if max_memory is None else ''}. You can " + ", or ".join(ways) + "."
    )
