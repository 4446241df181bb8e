"""The table of all names of neural-tangents in the page of translations, made from the compat module.

`python docs/building/neural_tangents_names.py` writes it into the page.
"""

import inspect
from pathlib import Path

from widetail.compat import neural_tangents as nt
from widetail.compat.neural_tangents import predict, stax

PAGE = Path(__file__).parents[1] / "tutorials" / "neural_tangents.md"
HEADING = "## Every name"
INTRODUCTION = """
The public names of neural-tangents 0.6.5, with the same arguments in `widetail.compat.neural_tangents`. Not
supported are `nt.experimental`, and several devices in `nt.batch`, which computes on one; several machines are a
[Dask cluster](../reference/distributed.md). Where the numbers differ, ours are right: `stax.Hermite` holds for
inputs of any variance, `stax.RectifiedMonomial` has no NaN at equal inputs, `stax.ImageResize` after a convolution
has the sizes of its axes in order.
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


def table() -> str:
    """The section of the page."""
    rows = ["| name | is |", "|:--|:--|"]
    for name, value in public_names():
        summary = (inspect.getdoc(value) or "").split("\n\n")[0].replace("\n", " ").replace("|", "\\|")
        rows.append(f"| `{name}` | {summary} |")
    rows += [f"| `{name}` | {why} |" for name, why in UNSUPPORTED.items()]
    return f"{HEADING}\n{INTRODUCTION}\n" + "\n".join(rows) + "\n"


if __name__ == "__main__":
    before = PAGE.read_text().split(HEADING)[0].rstrip()
    PAGE.write_text(f"{before}\n\n{table()}")
