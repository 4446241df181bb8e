"""doctor, bench, demo, and the command line as a whole."""

import dataclasses

import numpy as np
import pytest

from widetail.cli.commands import _demo
from widetail.cli.commands import _demo_study as study

COMMANDS = ("demo", "fit", "predict", "evaluate", "inspect", "kernel", "reproduce", "bench", "doctor")


def test_help_names_every_command(run):
    outcome = run("--help")
    assert outcome.code == 0
    assert all(f"  {command} " in outcome.out for command in COMMANDS)


def test_no_command_at_all_prints_the_help(run):
    assert run() == run("--help") == run("-h")


def test_completion_for_the_shell(run, monkeypatch):
    monkeypatch.setattr("shellingham.detect_shell", lambda *_: ("bash", "/bin/bash"))  # tests may run below no shell
    outcome = run("--show-completion")
    assert outcome.code == 0
    assert "_WIDETAIL_COMPLETE" in outcome.out


def test_completion_for_a_shell_that_is_named(run):
    for shell, word in (("zsh", "compdef"), ("bash", "COMPREPLY"), ("fish", "complete --command")):
        outcome = run("--show-completion", shell)
        assert (outcome.code, outcome.err) == (0, "")
        assert word in outcome.out
    assert "must be one of bash, zsh" in run("--show-completion", "tcsh").err
    assert "use `--show-completion zsh`" in run("--install-completion", "zsh").err


def test_a_wrong_option_is_told_in_sentences(run):
    outcome = run("fit", "t.csv", "--targett", "y")
    assert outcome.code == 2
    assert outcome.err.endswith("--target). Try `widetail fit --help`.\n")


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_explains_itself(run, command):
    outcome = run(command, "-h")
    assert outcome == run(command, "--help")
    assert outcome.code == 0
    assert "--json" in outcome.out
    assert "--debug" in outcome.out


def test_version(run):
    assert run("--version").out.startswith("widetail ")


def test_doctor(run):
    outcome = run("doctor", "--json")
    assert outcome.code == 0
    found = outcome.json
    assert found["versions"]["jax"]
    assert found["machine"]["cores"] >= 1
    assert len(found["checks"]) == 2
    assert all(check["passed"] and check["error"] < 1e-9 for check in found["checks"])


def test_doctor_reports_a_failed_check(run, monkeypatch):
    monkeypatch.setattr("widetail.cli.commands._doctor._CHECKS", {"wrong": lambda: 1.0, "broken": lambda: 1 / 0})
    outcome = run("doctor")
    assert outcome.code == 1
    assert "FAILED" in outcome.out
    assert "ZeroDivisionError" in outcome.out


def test_the_benchmarks_of_the_repository(run):
    listed = run("bench", "--list", "--json")
    assert {"kernels", "inference", "imports"} <= set(listed.json)
    assert run("bench", "sleep").code == 2


@pytest.mark.slow
def test_bench(run):
    outcome = run("bench", "--small", "--json")
    assert outcome.code == 0
    assert len(outcome.json["results"]) == 3
    assert all(result["seconds"] > 0 for result in outcome.json["results"])


@pytest.mark.slow
def test_demo(run, tmp_path):
    outcome = run("demo", "--out", tmp_path / "demo", "--json")
    assert outcome.code == 0, outcome.err
    scores = outcome.json["scores"]
    assert set(scores) == {"widetail", "Gaussian process", "boosted quantiles"}
    ours = scores["widetail"]
    assert 0.8 < ours["holds"] <= 1  # nine draws of forty rows
    assert abs(ours["holds"] - 0.9) < abs(scores["Gaussian process"]["holds"] - 0.9)
    assert ours["interval score"] < 0.95 * scores["Gaussian process"]["interval score"]
    report = (tmp_path / "demo" / "report.html").read_text()
    assert report.count("data:image/png;base64,") == 2
    assert "Best interval score" in report


def test_what_the_demo_compares_by_hand():
    """Two rows inside of their interval and one a tenth above; no target and no lower end is negative."""
    ends = (np.array([1.0, 1.0, 1.0]), np.array([1.5, 1.5, 1.5]), np.array([2.0, 2.0, 2.0]))
    part = study.Prediction("t", 0, "m", np.array([1.0, 1.4, 2.1]), *ends, 0.5, 3.0, None)
    scores = part.scores()
    assert scores["holds"] == pytest.approx(2 / 3)
    assert scores["interval score"] == pytest.approx((1 + 20 * 0.1 / 3) / 0.5)
    assert scores["absolute error"] == pytest.approx((0.5 + 0.1 + 0.6) / 3 / 0.5)
    other = dataclasses.replace(part, draw=1, y=np.array([1.0, 1.4, 1.9]))
    found = _demo.summary([part, other])
    assert (found["m"]["worst"], found["m"]["best"]) == (pytest.approx(2 / 3), 1.0)
    assert all(np.all(y > 0) for _, y in study.tables().values())
