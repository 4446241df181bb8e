"""doctor, bench, demo, and the command line as a whole."""

import json

import pytest

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
    monkeypatch.setattr("widetail.cli._doctor._CHECKS", {"wrong": lambda: 1.0, "broken": lambda: 1 / 0})
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
    # patients scatter with a standard deviation of 77; one standard error of the difference is about 2
    assert all(score["RMSE"] < 62 for score in scores.values())
    # 111 patients: three standard errors of a coverage of 90 % are 8.5 %
    assert all(abs(score["coverage"]["90%"] - 0.9) < 0.085 for score in scores.values())
    report = (tmp_path / "demo" / "report.html").read_text()
    assert report.count("data:image/png;base64,") == 4
    assert json.dumps(scores)
