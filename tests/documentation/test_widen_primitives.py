"""The page of `widen` lists the primitives that the code understands and refuses."""

import runpy
from pathlib import Path

from widetail.widening._primitives import SUMS
from widetail.widening.as_program._program import SUM_METHODS

ROOT = Path(__file__).parents[2]
MADE = runpy.run_path(str(ROOT / "docs" / "building" / "widen_primitives.py"))


def test_the_page_has_the_table_of_the_code():
    text = MADE["PAGE"].read_text()
    assert MADE["page"](text) == text


def test_every_sum_of_the_table_has_a_method():
    assert set(SUM_METHODS) == SUMS
