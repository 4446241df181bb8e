"""Reports: everything is in them, as Markdown and as a page that needs nothing else."""

import re
from html.parser import HTMLParser

import matplotlib
import pytest

from widetail import experiments
from widetail.experiments.report import Figure, Report, Section, to_html
from widetail.experiments.running import _registry, _reproduce

from . import toy
from .browser import look_at

matplotlib.use("Agg")


@pytest.fixture(scope="module")
def patch():
    with pytest.MonkeyPatch.context() as patch:
        real = _reproduce.experiment
        patch.setattr(_reproduce, "experiment", lambda name: toy.EXPERIMENT if name.startswith("toy") else real(name))
        patch.setattr(_reproduce, "MODULES", {"toy": "toy", "toy-2": "toy"})
        yield patch


@pytest.fixture(scope="module")
def folder(patch, tmp_path_factory):
    folder = tmp_path_factory.mktemp("report")
    assert experiments.reproduce("toy", out=folder, progress=False) == folder / "report.html"
    return folder


class Page(HTMLParser):
    """Tags that were opened and not closed, and all attributes."""

    EMPTY = ("meta", "link", "img", "br")

    def __init__(self, text):
        super().__init__()
        self.open, self.tags, self.attributes, self.text = [], [], [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += [(tag, *pair) for pair in attrs]
        if tag not in self.EMPTY:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text.append(data)


def test_the_page_needs_nothing_else(folder):
    text = (folder / "report.html").read_text()
    page = Page(text)
    assert page.open == []
    assert "script" not in page.tags
    links = [value for _, name, value in page.attributes if name in ("src", "href", "srcset")]
    assert links
    assert all(link.startswith(("data:", "#")) for link in links)
    anchors = {value for _, name, value in page.attributes if name == "id"}
    assert {link[1:] for link in links if link.startswith("#")} <= anchors
    assert "url(" not in text
    assert "@import" not in text


def test_the_page_says_everything(folder):
    page = Page((folder / "report.html").read_text())
    text = "".join(page.text)
    for part in (
        "Toy & co (quick)",
        "Does it run?",
        "There are 12 rows.",
        "With code, bold and <tags> & signs.",
        "A & B",
        "<row>",
        "A note.",
        "print('<hello>')",
        f"widetail reproduce toy --quick --out {folder}",
        '"draws": 50',
        "cores",
    ):
        assert part in text, part
    assert ("td", "class", "best") in page.attributes
    assert ("td", "class", "beside") in page.attributes


def test_markdown_says_it_too(folder):
    text = (folder / "report.md").read_text()
    for part in ("# Toy & co (quick)", "| <row> | **0.500** | 1.000 |", "| head | of \\| text |", "A note.", "- one"):
        assert part in text, part
    pictures = re.findall(r"!\[.*\]\((.*)\)", text)
    assert pictures == ["figures/toy-dot.png"]
    assert (folder / pictures[0]).read_bytes().startswith(b"\x89PNG")


def test_in_a_browser(folder, tmp_path):
    seen = look_at(folder / "report.html", tmp_path)
    assert len(seen["images"]) == 1
    assert all(width > 50 for width in seen["images"])
    assert seen["errors"] == seen["console"] == seen["fetched"] == []
    assert seen["overflow"] <= 0
    dark = look_at(folder / "report.html", tmp_path, "--force-dark-mode", "--blink-settings=preferredColorScheme=0")
    brightness = [
        sum(map(int, re.findall(r"\d+", it[key])[:3])) for it in (seen, dark) for key in ("background", "colour")
    ]
    light_page, dark_ink, dark_page, light_ink = brightness
    assert light_page - dark_ink > 400
    assert light_ink - dark_page > 400


def test_a_broken_picture_would_be_seen(tmp_path):
    """The check above can fail."""
    broken = Report("t", "l", [], {}, [Section("s", [Figure("f", b"\x89PNG not really", "c")])])
    page = tmp_path / "page.html"
    page.write_text(to_html([broken], "t"))
    assert look_at(page, tmp_path)["images"] == [0]


def test_a_second_call_does_nothing_again(folder):
    before = (folder / "rows.jsonl").read_bytes()
    experiments.reproduce("toy", out=folder, progress=False)
    assert (folder / "rows.jsonl").read_bytes() == before


def test_all_in_one_page(patch, tmp_path):
    page = experiments.reproduce("all", size="full", out=tmp_path / "all", progress=False)
    assert page == tmp_path / "all" / "report.html"
    text = Page(page.read_text())
    assert text.open == []
    assert "".join(text.text).count("There are 12 rows.") == 2
    assert (tmp_path / "all" / "toy-2" / "rows.jsonl").exists()
    assert (tmp_path / "all" / "toy" / "report.html").exists()


def test_where_results_go_by_default(patch, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert str(experiments.reproduce("toy", progress=False)) == "results/toy-quick/report.html"
    assert "widetail reproduce toy --quick\n" in (tmp_path / "results/toy-quick/report.md").read_text()


def test_configuration_is_printed(patch, tmp_path, capsys):
    experiments.reproduce("toy", out=tmp_path)
    said = capsys.readouterr().err
    assert "toy: ToyConfig(draws=50, seeds=6, seed=0)" in said
    assert "5-shifted" in said


def test_names_and_bad_arguments(tmp_path, as_users_call):
    assert tuple(_registry.MODULES) == experiments.NAMES
    assert {"theory", "uci", "gaussian-classification", "ensemble"} <= set(experiments.NAMES)
    with pytest.raises(ValueError, match=r"name must be one of theory, uci.*got 'iris'"):
        experiments.reproduce("iris", out=tmp_path)
    with pytest.raises(ValueError, match="size must be 'quick' or 'full'; got 'huge'"):
        experiments.reproduce("uci", size="huge", out=tmp_path)
    assert not any(tmp_path.iterdir())


@pytest.mark.parametrize("name", experiments.NAMES)
@pytest.mark.parametrize("size", ["quick", "full"])
def test_every_experiment_has_tasks_that_differ(name, size):
    chosen = _registry.experiment(name)
    config = chosen.config(size)
    keys = [tuple(task.key.items()) for task in chosen.tasks(config)]
    assert len(set(keys)) == len(keys) > 1
    assert isinstance(config.seed, int)
