"""Every block of code of the README and of the documentation runs; what the pages say of messages and links is true."""

import re

import matplotlib
import numpy as np
import pytest

from tests.documentation.pages import ROOT, blocks, run_page

matplotlib.use("Agg")

QUICK = ["docs/index.md", "docs/tutorials/neural_tangents.md"]
SLOW = [
    "docs/extending.md",
    "docs/reference/empirical.md",
    "docs/reference/experiments.md",
    "docs/reference/finite.md",
    "docs/reference/widen.md",
    "docs/reference/programs.md",
    "docs/reference/sparse.md",
    "docs/tutorials/few_rows.md",
    "docs/tutorials/images.md",
    "docs/tutorials/noise.md",
    "docs/tutorials/cluster.md",
    "docs/tutorials/priors.md",
    "docs/tutorials/programs.md",
    "docs/tutorials/scale_mixtures.md",
    "docs/tutorials/table.md",
    "docs/tutorials/widen.md",
]
PAGES = ["README.md", *QUICK, *SLOW]


@pytest.fixture(autouse=True)
def own_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("page", [*QUICK, *(pytest.param(page, marks=pytest.mark.slow) for page in SLOW)])
def test_code_of_a_page_runs(page, as_users_call):
    assert run_page(page) > 0


def test_code_of_the_readme_runs(as_users_call):
    assert run_page("README.md", ["python"]) == 2


@pytest.mark.slow
def test_commands_of_the_readme_run():
    rng = np.random.default_rng(0)
    for name, rows in {"train": 60, "new": 20, "test": 20}.items():
        table = rng.normal(size=(rows, 3))
        np.savetxt(f"{name}.csv", table, delimiter=",", header="size,age,price", comments="")
    assert run_page("README.md", ["sh"]) == 2


def test_every_page_with_code_is_run():
    with_code = {
        str(path.relative_to(ROOT))
        for path in [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
        if any(language == "python" for language, _ in blocks(path.relative_to(ROOT)))
    }
    assert with_code <= set(PAGES)


def test_messages_on_the_page_of_errors_exist():
    source = " ".join(
        re.sub(r'"\s*\n\s*f?"', "", path.read_text()) for path in (ROOT / "src" / "widetail").rglob("*.py")
    )
    page = (ROOT / "docs" / "errors.md").read_text()
    messages = re.findall(r"^\| `([^`]+)` \|", page, re.MULTILINE)
    assert len(messages) > 20
    assert [message for message in messages if message not in source] == []


def test_pictures_are_there():
    for path in [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]:
        for target in re.findall(r"!\[[^\]]*\]\(([^)]+)\)", path.read_text()):
            assert (path.parent / target).is_file(), (path, target)
