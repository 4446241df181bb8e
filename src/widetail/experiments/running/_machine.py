"""Where a number was computed: commit, machine, versions."""

import importlib.metadata
import os
import platform
import subprocess
from pathlib import Path
from typing import Any

SOURCE = Path(__file__).resolve().parents[2]
PACKAGES = ("widetail", "jax", "numpy", "scipy")


def commit() -> str:
    """The commit of the source, with a + where files differ from it; the version of an installed package."""
    # A package that is installed below somebody's own repository is not part of that repository.
    if not _git("ls-files", "--error-unmatch", str(Path(__file__).resolve())):
        return importlib.metadata.version("widetail")
    return _git("rev-parse", "--short", "HEAD") + ("+" if _git("status", "--porcelain", ".") else "")


def machine() -> str:
    """Processor, number of cores, and the devices of JAX where they are not the processor."""
    import jax

    here = f"{platform.machine()}, {_processor()}, {os.cpu_count()} cores"
    devices = [device.device_kind for device in jax.devices() if device.platform != "cpu"]
    return f"{here}, {', '.join(devices)}" if devices else here


def versions() -> dict[str, str]:
    """Of Python and of what computes."""
    packages = {name: importlib.metadata.version(name) for name in PACKAGES}
    return {"python": platform.python_version(), **packages}


def origin() -> dict[str, Any]:
    """Everything above, for one line of results."""
    return {"commit": commit(), "machine": machine(), "versions": versions()}


def _git(*arguments: str) -> str:
    try:
        found = subprocess.run(["git", *arguments], cwd=SOURCE, capture_output=True, text=True, check=False)
    except OSError:  # no git
        return ""
    return found.stdout.strip() if found.returncode == 0 else ""


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    return next((line.split(":")[1].strip() for line in lines if line.startswith("model name")), platform.processor())
