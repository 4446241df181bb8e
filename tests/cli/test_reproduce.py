"""`widetail reproduce`, with an experiment that takes no time."""

import sys

import pytest

from tests.experiments import toy
from widetail.experiments import Store


@pytest.fixture
def toy_experiment(monkeypatch):
    """`theory` stands for the toy."""
    monkeypatch.setitem(sys.modules, "widetail.experiments.theory", toy)


def test_without_a_name_it_lists_the_experiments(run):
    names = ["theory", "uci", "gaussian-classification", "sparse", "unseen", "few", "ensemble", "noise"]
    assert run("reproduce").out.split() == names
    assert run("reproduce", "--json").json == {"experiments": names}


@pytest.mark.usefixtures("toy_experiment")
def test_it_writes_a_report_and_says_where(run, tmp_path):
    out = tmp_path / "results"
    outcome = run("reproduce", "theory", "--quick", "--out", out)
    assert outcome.code == 0, outcome.err
    title, *sentences, where = outcome.out.splitlines()
    assert where == f"report: {out / 'report.html'}"
    assert sentences
    assert all(line.startswith("- ") for line in sentences)
    assert "ToyConfig(draws=50, seeds=6, seed=0)" in outcome.err  # what is about to be done
    assert "12/12" in outcome.err
    assert {path.name for path in out.iterdir()} == {"rows.jsonl", "arrays", "figures", "report.md", "report.html"}
    before = (out / "rows.jsonl").read_bytes()
    again = run("reproduce", "theory", "--out", out, "--json", "--quiet")
    assert again.json == {
        "experiment": "theory",
        "size": "quick",
        "report": str(out / "report.html"),
        "findings": {title: [line.removeprefix("- ") for line in sentences]},
    }
    assert again.err == ""
    assert (out / "rows.jsonl").read_bytes() == before


@pytest.mark.usefixtures("toy_experiment")
def test_a_second_run_waits_for_the_first(run, tmp_path):
    with Store(tmp_path, "theory", toy.ToyConfig()):
        outcome = run("reproduce", "theory", "--out", tmp_path, "--quiet")
    assert outcome.code == 1
    assert outcome.err == f"widetail: another run is writing to {tmp_path}; wait for it, or choose another out.\n"


@pytest.mark.usefixtures("toy_experiment")
def test_results_of_something_else_are_not_touched(run, tmp_path):
    (tmp_path / "rows.jsonl").write_text('{"holiday": "photos"}\n{"task": 1}\n')
    outcome = run("reproduce", "theory", "--out", tmp_path)
    assert outcome.code == 1
    assert outcome.err.count("\n") <= 2  # the configuration and the error
    assert "is damaged" in outcome.err
    assert (tmp_path / "rows.jsonl").read_text().startswith('{"holiday"')


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["teory"], "no experiment is called 'teory'; there are theory, uci"),
        (["theory", "--quick", "--full"], "--quick and --full exclude each other"),
        (["theory", "uci"], "unexpected extra argument"),
    ],
)
def test_what_cannot_be_done_is_refused(run, arguments, message):
    outcome = run("reproduce", *arguments)
    assert outcome.code == 2
    assert message in outcome.err
    assert outcome.out == ""
