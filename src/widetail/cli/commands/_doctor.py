"""`widetail doctor`."""

import os
import platform
import time
from collections.abc import Callable
from importlib import metadata
from typing import Any

import typer

from widetail.cli import _options as options
from widetail.cli._output import Output, table

PACKAGES = ("widetail", "jax", "jaxlib", "equinox", "numpy", "scipy", "scikit-learn", "optax", "safetensors")
EXTRAS = {
    "typer": "cli",
    "rich": "cli",
    "polars": "cli",
    "matplotlib": "plot",
    "zarr": "distributed",
    "dask": "distributed",
    "pooch": "data",
}
LITTLE_MEMORY = 2e9
AGREEMENT = 1e-9


def doctor(as_json: options.Json = False, quiet: options.Quiet = False, debug: options.Debug = False):
    """Check the installation and say what to fix.

    Versions, devices, threads, and a timed self-check.
    """
    import jax

    from widetail.kernels import available_memory

    output = Output(as_json=as_json, quiet=quiet)
    versions = {name: _version(name) for name in (*PACKAGES, *EXTRAS)}
    machine = {
        "python": platform.python_version(),
        "platform": platform.platform(),
        "devices": [str(device) for device in jax.devices()],
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "free_memory_gb": round(available_memory() / 1e9, 2),
        "blas": _blas(),
    }
    checks = [_checked(name, check) for name, check in _CHECKS.items()]
    advice = _advice(versions, machine, checks)
    results = {"versions": versions, "machine": machine, "checks": checks, "advice": advice}
    output.result(results, lambda console: _draw(console, results))
    if not all(check["passed"] for check in checks):
        raise typer.Exit(1)


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def _blas() -> list[dict[str, Any]]:
    import scipy.linalg  # noqa: F401  (loads its own BLAS, which is to be listed)
    from threadpoolctl import threadpool_info

    return [
        {"library": info.get("internal_api"), "version": info.get("version"), "threads": info.get("num_threads")}
        for info in threadpool_info()
    ]


def _checked(name: str, check: Callable[[], float]) -> dict[str, Any]:
    began = time.perf_counter()
    try:
        error = check()
    except Exception as problem:  # whatever it is, a doctor reports it
        return {"check": name, "passed": False, "error": repr(problem), "seconds": time.perf_counter() - began}
    return {"check": name, "passed": error < AGREEMENT, "error": error, "seconds": time.perf_counter() - began}


def _kernel_agrees_with_an_integral() -> float:
    """The erf kernel of one hidden layer against an integral over the Gaussian pair by Gauss-Hermite quadrature."""
    import numpy as np
    from scipy.special import erf

    from widetail import nn

    x = np.array([[0.5, -1.0], [1.5, 0.25]])
    k = nn.Sequential(nn.Dense(weight_var=0.8, bias_var=0.1), nn.Erf()).kernel(x, get="nngp").nngp
    root = np.linalg.cholesky(0.8 * x @ x.T / 2 + 0.1)
    nodes, weights = np.polynomial.hermite_e.hermegauss(80)
    u, v = np.meshgrid(nodes, nodes)
    pair = np.outer(weights, weights) / (2 * np.pi)
    expected = np.sum(pair * erf(root[0, 0] * u) * erf(root[1, 0] * u + root[1, 1] * v))
    return float(abs(k[0, 1] - expected))


def _posterior_agrees_with_scipy() -> float:
    """The predictive density of a Student-t process against the formula, by a dense solve and scipy's t."""
    import numpy as np
    import scipy.stats

    import widetail as wt

    rng = np.random.default_rng(0)
    x, new = rng.normal(size=(400, 3)), rng.normal(size=(20, 3))
    y = np.sin(x).sum(axis=1)
    net = wt.nn.mlp(2, "erf")
    dist = wt.ScaleMixture(net, wt.InverseGamma(2.0, 3.0), wt.ScaledNoise(0.1)).posterior(x, y)(new)
    k, cross = net.kernel(x, get="nngp").nngp, net.kernel(x, new, get="nngp").nngp
    solved = np.linalg.solve(k + 0.1 * np.eye(400), np.column_stack([y, cross]))
    spread = net.diagonal(new, get="nngp").nngp + 0.1 - np.sum(cross * solved[:, 1:], axis=0)
    scale = np.sqrt((3.0 + 0.5 * y @ solved[:, 0]) / (2.0 + 200.0) * spread)
    grid = np.linspace(-2.0, 2.0, 20)
    expected = scipy.stats.t.logpdf(grid, df=404.0, loc=cross.T @ solved[:, 0], scale=scale)
    return float(np.max(np.abs(np.asarray(dist.log_prob(grid)) - expected)))


_CHECKS = {
    "kernel of a network, against an integral": _kernel_agrees_with_an_integral,
    "Student-t posterior of 400 rows, against scipy": _posterior_agrees_with_scipy,
}


def _advice(versions: dict[str, Any], machine: dict[str, Any], checks: list[dict[str, Any]]) -> list[str]:
    advice = [
        f"{name} is not installed: pip install 'widetail[{extra}]'"
        for name, extra in EXTRAS.items()
        if versions[name] is None
    ]
    advice += [
        f"the self-check failed ({check['check']}, error {check['error']}): reinstall jax and jaxlib of one version"
        for check in checks
        if not check["passed"]
    ]
    for blas in machine["blas"]:
        if blas["threads"] and blas["threads"] > machine["cores"]:
            advice.append(
                f"{blas['library']} uses {blas['threads']} threads on {machine['cores']} cores: set "
                f"OPENBLAS_NUM_THREADS={machine['cores']}"
            )
    if machine["free_memory_gb"] * 1e9 < LITTLE_MEMORY:
        advice.append(f"only {machine['free_memory_gb']} GB of memory are free: exact models of few rows, or --sparse")
    if os.environ.get("JAX_PLATFORMS") == "" and not any("cuda" in device.lower() for device in machine["devices"]):
        advice.append("JAX_PLATFORMS is set but empty: unset it")
    return advice


def _draw(console: Any, results: dict[str, Any]) -> None:
    console.print(table(None, ["package", "version"], [(k, v or "missing") for k, v in results["versions"].items()]))
    machine = results["machine"]
    rows = [(name, machine[name]) for name in ("python", "platform", "cores", "free_memory_gb")]
    rows += [("devices", ", ".join(machine["devices"]))]
    rows += [(f"BLAS: {one['library']} {one['version']}", f"{one['threads']} threads") for one in machine["blas"]]
    console.print(table(None, ["machine", ""], rows))
    marks = [
        (check["check"], "passed" if check["passed"] else "FAILED", check["error"], check["seconds"])
        for check in results["checks"]
    ]
    console.print(table(None, ["self-check", "", "error", "seconds"], marks))
    console.print("\n".join(results["advice"]) or "nothing to fix")
