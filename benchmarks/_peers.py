"""Other libraries, each in a virtual environment of its own."""

import subprocess
import sys
from pathlib import Path

from benchmarks._report import ROOT

# neural-tangents does not import on a current JAX; these versions work together.
NEURAL_TANGENTS = ("jax==0.4.30", "jaxlib==0.4.30", "numpy<2", "tf2jax==0.3.6", "neural-tangents==0.6.5")


def neural_tangents() -> Path:
    """The Python that has neural-tangents; its environment is made on the first call."""
    return _environment(ROOT / ".venv-peer", NEURAL_TANGENTS)


def _environment(folder: Path, requirements: tuple[str, ...]) -> Path:
    python, stamp = folder / "bin" / "python", folder / ".ready"
    if not stamp.exists() or stamp.read_text().split() != list(requirements):
        print(f"making {folder.name} with {', '.join(requirements)}", flush=True)
        subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
        pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*pip, *requirements], check=True)
        stamp.write_text("\n".join(requirements))
    return python
