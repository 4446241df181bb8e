"""What the page of translations says of neural-tangents' tests, examples and names, made from saved runs and the code.

`python docs/building/neural_tangents_names.py` writes it into the page.
"""

import inspect
import json
import runpy
from pathlib import Path

from widetail.compat import neural_tangents as nt
from widetail.compat.neural_tangents import predict, stax

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "tutorials" / "neural_tangents.md"
RUNS = "## Its own tests and examples"
TESTS = ROOT / "benchmarks" / "results" / "neural_tangents_tests.jsonl"
EXAMPLES = ROOT / "benchmarks" / "results" / "neural_tangents_examples.json"
HEADING = "## Every name"
INTRODUCTION = """
The public names of neural-tangents 0.6.5, with the same arguments in `widetail.compat.neural_tangents`. Not
supported are `nt.experimental`, and several devices in `nt.batch`, which computes on one; several machines are a
[Dask cluster](../reference/distributed.md). Where the numbers differ, ours are right: `stax.Hermite` holds for
inputs of any variance, `stax.RectifiedMonomial` has no NaN at equal inputs, after a convolution `stax.ImageResize`
and `stax.ConvLocal` have the sizes of their axes in order (there, those of sizes and windows are swapped).
"""

# what neural-tangents has and this library does not
UNSUPPORTED = {
    "nt.experimental.empirical_ntk_fn_tf": "Not supported: tangent kernels of TensorFlow functions.",
    "nt.experimental.get_apply_fn_and_params": "Not supported: a Keras model as a function of JAX.",
}


def public_names() -> list[tuple[str, object]]:
    """Every name with what it is."""
    found = []
    for prefix, module in (("nt", nt), ("nt.predict", predict), ("nt.stax", stax)):
        for name, value in sorted(vars(module).items(), key=lambda item: item[0].lower()):
            if not name.startswith("_") and not inspect.ismodule(value) and name != "Any":
                found.append((f"{prefix}.{name}", value))
    return found


def runs() -> str:
    """The section on its tests and examples."""
    tool = runpy.run_path(str(ROOT / "tools" / "neural_tangents_tests.py"))
    rows = ["| example script | largest difference of printed numbers |", "|:--|--:|"]
    for name, found in json.loads(EXAMPLES.read_text()).items():
        gap = found["largest difference"]
        note = " (double precision)" if found["in double precision"] else ""
        rows.append(f"| `{name.split()[0]}`{note} | {'other words' if gap is None else f'{gap:.1e}'} |")
    return (
        f"{RUNS}\n\nTests of a checkout of neural-tangents, run against the compat module by "
        f"`tools/neural_tangents_tests.py`. Functions have up to thousands of cases, of which their own helper draws "
        f"some with a fixed seed.\n\n{tool['table'](TESTS)}\n\n"
        f"The scripts of its `examples/` folder, with the import changed and beside the original "
        f"(`tools/neural_tangents_examples.py`; arrays of images in place of TensorFlow's data sets, and for `imdb` "
        f"the random sentences that the script has for tests); differences are relative to the number or to 1e-3.\n\n"
        + "\n".join(rows)
        + "\n\nThe one digit is rounding of the original: of 1,000 test images it puts one into another class than it "
        "does in double precision (accuracy 0.335 in place of 0.334; the loss of the tangent kernel is 8e-5 off). Ours "
        "has the accuracy of double precision in single precision already, and a loss that is 3e-6 off.\n"
    )


def table() -> str:
    """The section with all names."""
    rows = ["| name | is |", "|:--|:--|"]
    for name, value in public_names():
        summary = (inspect.getdoc(value) or "").split("\n\n")[0].replace("\n", " ").replace("|", "\\|")
        rows.append(f"| `{name}` | {summary} |")
    rows += [f"| `{name}` | {why} |" for name, why in UNSUPPORTED.items()]
    return f"{HEADING}\n{INTRODUCTION}\n" + "\n".join(rows) + "\n"


if __name__ == "__main__":
    before = PAGE.read_text().split(RUNS)[0].split(HEADING)[0].rstrip()
    PAGE.write_text(f"{before}\n\n{runs()}\n{table()}")
