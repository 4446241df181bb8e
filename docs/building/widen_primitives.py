"""The table of JAX's primitives in the page of `widen`, made from the table that the code reads.

`python docs/building/widen_primitives.py` writes it into the page.
"""

from pathlib import Path

from widetail import widening

PAGE = Path(__file__).parents[1] / "reference" / "widen.md"
HEADING = "## What is understood, and what is refused"
END = "## Reference"
INTRODUCTION = """
A model is read as the primitives of JAX that it is made of; `jax.make_jaxpr` shows those of yours.
`widetail.widening.understood()` and `refused()` give these tables.
"""


def section() -> str:
    """The section of the page."""
    rows = ["| what becomes of them | primitives |", "|:--|:--|"]
    for meaning, names in widening.understood().items():
        rows.append(f"| {meaning} | {', '.join(f'`{name}`' for name in names)} |")
    rows += ["", "| refused | because |", "|:--|:--|"]
    rows += [f"| `{name}` | {reason} |" for name, reason in widening.refused().items()]
    return f"{HEADING}\n{INTRODUCTION}\n" + "\n".join(rows) + "\n\n"


def page(text: str) -> str:
    """The page with the section as it is to be."""
    before, rest = text.split(HEADING)
    return before + section() + END + rest.split(END)[1]


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text()))
