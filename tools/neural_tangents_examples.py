"""Run the example scripts of a neural-tangents checkout with the import changed, and compare what they print.

    git clone https://github.com/google/neural-tangents checkout
    python tools/neural_tangents_examples.py checkout --images ~/data/images --report found.json

Every script of `examples/` is run twice: as it is, with neural-tangents 0.6.5 in an environment of its own (made on
the first call), and with `from widetail.compat import neural_tangents as nt` in place of its import. Nothing of the
checkout is copied. TensorFlow data sets are not there: `mnist.npz` and `cifar10.npz` of `--images` (arrays x_train,
y_train, x_test, y_test) stand in, prepared in the same way, and the attention network takes the random sentences that
its script has for tests. Random draws are the same on both sides, by the same setting of JAX's generator.
Needs absl-py.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import types
from pathlib import Path

SCRIPTS = (
    "elementwise", "elementwise_numerical", "empirical_ntk", "function_space", "infinite_fcn", "weight_space", "imdb"
)  # fmt: skip
NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:e[-+]?\d+)?")


def run_one(checkout: Path, name: str, library: str, images: Path | None) -> None:
    """In a process of its own: the script, with the data at hand in place of TensorFlow's."""
    sys.path.insert(0, str(checkout))
    import jax
    import numpy as np

    datasets = types.ModuleType("examples.datasets")
    source = (checkout / "examples" / "datasets.py").read_text()
    # their mini-batches as they are; only the loader is ours
    batches = source[source.index("def minibatch(") : source.index("def embed_glove(")]
    exec(compile(batches, "examples/datasets.py", "exec"), {"np": np, "random": jax.random}, vars(datasets))

    def get_dataset(name, n_train=None, n_test=None, permute_train=False, **_):
        if images is None:
            raise SystemExit("this script needs --images")
        with np.load(images / f"{name}.npz") as file:
            x1, y1, x2, y2 = (file[key] for key in ("x_train", "y_train", "x_test", "y_test"))
        x1, y1, x2, y2 = x1[:n_train], y1[:n_train], x2[:n_test], y2[:n_test]
        x1, x2 = ((x.reshape(len(x), -1) - np.mean(x)) / np.std(x) for x in (x1, x2))
        y1, y2 = (np.asarray(y.reshape(-1, 1) == np.arange(10), np.float32) for y in (y1, y2))
        order = np.random.RandomState(0).permutation(len(x1)) if permute_train else slice(None)
        return x1[order].astype(np.float32), y1[order], x2.astype(np.float32), y2

    vars(datasets)["get_dataset"] = get_dataset
    package = types.ModuleType("examples")
    package.__path__ = [str(checkout / "examples")]
    vars(package)["datasets"] = datasets
    sys.modules |= {"examples": package, "examples.datasets": datasets}
    script = (checkout / "examples" / f"{name}.py").read_text()
    if library == "widetail":
        script = script.replace("import neural_tangents as nt", "from widetail.compat import neural_tangents as nt")
        script = script.replace("from neural_tangents import", "from widetail.compat.neural_tangents import")
    scope = {"__name__": name}
    exec(compile(script, f"examples/{name}.py", "exec"), scope)
    scope["main"](**({"use_dummy_data": True} if name == "imdb" else {"unused_argv": []}))


def printed(
    python: str, checkout: Path, name: str, library: str, images: Path | None, in_double: bool = False
) -> list[str]:
    """The lines that a script prints, without those that name seconds, and those on costs that the original adds."""
    command = [python, __file__, str(checkout), "--run", name, "--library", library]
    command += [] if images is None else ["--images", str(images)]
    env = os.environ | {
        "JAX_THREEFRY_PARTITIONABLE": "1",
        "PYTHONWARNINGS": "ignore",
        "JAX_ENABLE_X64": str(int(in_double)),
    }
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    if done.returncode:
        return [f"failed: {(done.stderr.strip().splitlines() or ['without a word'])[-1]}"]
    return [line for line in done.stdout.splitlines() if "seconds" not in line and not line.startswith("impl=")]


def gap(ours: list[str], theirs: list[str]) -> float | None:
    """The largest difference of two printed numbers, relative to the larger or to 1e-3; None for other words."""
    if [NUMBER.sub("#", line) for line in ours] != [NUMBER.sub("#", line) for line in theirs]:
        return None
    pairs = zip(*(map(float, NUMBER.findall("\n".join(lines))) for lines in (ours, theirs)), strict=True)
    return max((abs(a - b) / max(abs(a), abs(b), 1e-3) for a, b in pairs), default=0.0)


def main() -> int:
    """Run, compare, print, save."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkout", type=Path)
    parser.add_argument("--images", type=Path, help="folder with mnist.npz and cifar10.npz")
    parser.add_argument("--only", default="", help="scripts whose name has this in it")
    parser.add_argument("--double", action="store_true", help="in double precision, which the scripts do not ask for")
    parser.add_argument("--report", type=Path, help="JSON of what was printed; scripts that it has are not run again")
    parser.add_argument("--run", help=argparse.SUPPRESS)
    parser.add_argument("--library", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.run:
        run_one(chosen.checkout.resolve(), chosen.run, chosen.library, chosen.images)
        return 0
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
    from benchmarks._peers import python_of

    report = json.loads(chosen.report.read_text()) if chosen.report and chosen.report.exists() else {}
    is_same = True
    for name in SCRIPTS:
        if chosen.only not in name or name in report:
            continue
        options = (chosen.images, chosen.double)
        ours = printed(sys.executable, chosen.checkout, name, "widetail", *options)
        theirs = printed(str(python_of("neural_tangents")), chosen.checkout, name, "neural-tangents", *options)
        found = None if any(line.startswith("failed") for line in (*ours, *theirs)) else gap(ours, theirs)
        is_same &= found is not None
        print(f"{name}: {'DIFFERENT' if found is None else f'same words, numbers to {found:.1e}'}", flush=True)
        if found is None:
            print(*ours, "-- the original:", *theirs, sep="\n")
        report[name] = {
            "in double precision": chosen.double,
            "widetail": ours,
            "neural-tangents": theirs,
            "largest difference": found,
        }
        if chosen.report:
            chosen.report.write_text(json.dumps(report, indent=1) + "\n")
    return 0 if is_same else 1


if __name__ == "__main__":
    sys.exit(main())
