"""Run the tests of a neural-tangents checkout against `widetail.compat.neural_tangents`, and say what fails and why.

    git clone https://github.com/google/neural-tangents checkout
    python tools/neural_tangents_tests.py checkout --cases 2 --rows benchmarks/results/neural_tangents_tests.jsonl
    python tools/neural_tangents_tests.py --table benchmarks/results/neural_tangents_tests.jsonl

Nothing of the checkout is copied. Their test functions have up to thousands of parametrisations, in a random order
that their own helper draws with a fixed seed; the first `--cases` of each that their suite does not leave out itself
are run. All functions have their first case before one has its second; those of which nothing has run yet come first.
Every outcome is a line in `--rows`, and a run that is started again goes on after the last one. `--original` runs the
tests with neural-tangents itself, in an environment that has it.
Needs absl-py and more_itertools.
"""

import argparse
import collections
import importlib
import json
import os
import re
import signal
import subprocess
import sys
import time
import types
import unittest
import warnings
from pathlib import Path

FILES = (
    "stax/branching_test", "stax/combinators_test", "stax/elementwise_test", "stax/linear_test",
    "stax/requirements_test", "stax/stax_test", "batching_test", "empirical_test", "monte_carlo_test", "predict_test",
    "elementwise_test", "elementwise_numerical_test", "empirical_ntk_test", "function_space_test", "infinite_fcn_test",
    "weight_space_test", "imdb_test", "rules_test",
)  # fmt: skip
# what cannot be run at all: rules_test is of private parts of neural-tangents that exist nowhere else
WITHOUT = {"rules_test": "tests derivative rules of JAX primitives, a private part of neural-tangents"}


def pretend() -> None:
    """Let `import neural_tangents` mean the compat module, with the few private names that the tests import."""
    import jax
    import jax.numpy as jnp

    from widetail.compat import neural_tangents as nt
    from widetail.compat.neural_tangents import _arrays, _batching, _empirical, _monte_carlo, _predict, predict, stax

    # functions that JAX has renamed since
    for old, new in {"tree_map": jax.tree.map, "tree_leaves": jax.tree.leaves}.items():
        if not hasattr(jax, old):
            setattr(jax, old, new)

    def module(name: str, **names: object) -> types.ModuleType:
        made = types.ModuleType(name)
        vars(made).update(names)
        sys.modules[name] = made
        return made

    def x1_is_x2(x1, x2=None, eps=1e-12):
        return True if x2 is None else bool(jnp.all(jnp.abs(x1 - x2) < eps))

    utils = module(
        "neural_tangents._src.utils.utils",
        zip_axes=_arrays.zip_axes,
        unzip_axes=_arrays.unzip_axes,
        make_2d=_arrays.make_2d,
        canonicalize_axis=lambda axis, x: _arrays.canonical_axes(axis, x if isinstance(x, int) else len(jnp.shape(x))),
        x1_is_x2=x1_is_x2,
        size_at=lambda x, axes=None: _size_at(x, axes),
        split_kwargs=_empirical.split_options,
        is_nt_tree_of=_batching._is_tree_of,
        all_none=lambda x: not jax.tree.leaves(x),
        canonicalize_idx=lambda idx, ndim: _arrays.canonical_index(idx, ndim),
        axis_after_dot=_axis_after_dot,
        zip_flat=lambda one, other: tuple(part for pair in zip(one, other, strict=True) for part in pair),
    )

    def sample_once(kernel_fn, init_fn, batch_size=0, device_count=0, store_on_device=True):
        def run(x1, x2, key, get):
            _, params = init_fn(key, x1.shape)
            return nt.batch(kernel_fn, batch_size, 0, store_on_device)(x1, x2, get, params)

        return run

    empirical = module("neural_tangents._src.empirical", **vars(_empirical))
    empirical._DEFAULT_TESTING_NTK_IMPLEMENTATION = _empirical.NtkImplementation.JACOBIAN_CONTRACTION
    parts = {
        "batching": module("neural_tangents._src.batching", **vars(_batching)),
        "monte_carlo": module(
            "neural_tangents._src.monte_carlo", **vars(_monte_carlo), _sample_once_kernel_fn=sample_once
        ),
        "predict": module("neural_tangents._src.predict", **vars(_predict), _is_on_cpu=lambda x: True),
        "empirical": empirical,
        "utils": module("neural_tangents._src.utils", utils=utils),
    }
    for name in ("_serial", "_parallel"):  # what of the batching they test by name
        size = name == "_serial"
        setattr(
            parts["batching"],
            name,
            (lambda fn, batch_size=0, store_on_device=True, **_: nt.batch(fn, batch_size, 0, store_on_device))
            if size
            else (lambda fn, *_, **__: nt.batch(fn, 0, 0)),
        )
    module("neural_tangents._src", **parts)
    sys.modules.update({"neural_tangents": nt, "neural_tangents.stax": stax, "neural_tangents.predict": predict})


def _axis_after_dot(axis, contracting, batching, other_ndim=None):
    """Where an axis of `jax.lax.dot_general`'s operand is in the result; `other_ndim` axes stand to its left."""
    if axis in batching:
        return list(batching).index(axis)
    gone = {*contracting, *batching}
    before = len(batching) if other_ndim is None else other_ndim - len(contracting)
    return before + sum(one not in gone for one in range(axis))


def _size_at(x, axes):
    shape = getattr(x, "shape", x)
    total = 1
    for axis in range(len(shape)) if axes is None else axes:
        total *= shape[axis]
    return total


# cases drawn for each that is to be run: combinations that mean nothing are left out by the suite itself
MORE = 8


class TooLongError(Exception):
    """A test took longer than allowed."""


class Recorder(unittest.TestResult):
    """What became of every test, as lines of a file."""

    def __init__(self, rows: Path, limit: int):
        super().__init__()
        self.file, self.limit = rows, limit
        command = ["git", "-C", str(Path(__file__).parent), "rev-parse", "--short", "HEAD"]
        self.commit = subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()

    def begin(self, row: dict) -> None:
        """A test is about to run; if the process ends within it, this line tells."""
        self.row, self.is_open, self.began = row, True, time.process_time()
        self._write("unfinished", "the process ended")
        signal.signal(signal.SIGPROF, self._stop)
        signal.setitimer(signal.ITIMER_PROF, self.limit)

    def _stop(self, *_):
        raise TooLongError(f"more than {self.limit} s")

    def _write(self, outcome, reason):
        seconds = round(time.process_time() - self.began, 1)
        with self.file.open("a") as file:
            file.write(
                json.dumps(self.row | {"outcome": outcome, "reason": reason, "seconds": seconds, "commit": self.commit})
                + "\n"
            )

    def _record(self, outcome, reason=""):
        signal.setitimer(signal.ITIMER_PROF, 0)
        if self.is_open:  # the first failure of a test is its reason
            self.is_open, self.outcome = False, outcome
            self._write(outcome, reason)
            print(f"{outcome:8s} {self.row['test']} {self.row['case']} {reason}"[:330], flush=True)

    def addSuccess(self, test):  # noqa: N802
        self._record("passed")

    def addSkip(self, test, reason):  # noqa: N802
        self._record("skipped", reason)

    def addError(self, test, err):  # noqa: N802
        self._record("too long" if err[0] is TooLongError else "failed", _why(err))

    addFailure = addError  # noqa: N815

    def addSubTest(self, test, subtest, err):  # noqa: N802
        if err is not None:
            self.addError(test, err)


def _why(err) -> str:
    first = (str(err[1]).strip().splitlines() or [""])[0]
    frame, place = err[2], ""
    while frame is not None:
        file = frame.tb_frame.f_code.co_filename
        if "widetail" in file or "tests" in file:
            place = f"{Path(file).name}:{frame.tb_lineno}"
        frame = frame.tb_next
    return f"{err[0].__name__} at {place}: {first}"


def tests_of(checkout: Path, file: str, possible: dict[str, int]) -> list[tuple[dict, unittest.TestCase]]:
    """Each test of a file, with its name, the number of the case and how many cases there are."""
    found = []
    for group in unittest.defaultTestLoader.loadTestsFromModule(importlib.import_module(dotted(file))):
        for test in group:
            method = test.id().split(" ")[0].rsplit(".", 1)[1]
            group = type(test).__qualname__
            digits = re.search(r"\d*$", method)
            starts = range(digits.start() if digits else len(method), len(method))
            function = next((method[:i] for i in starts if f"{dotted(file)}.{group}.{method[:i]}" in possible), method)
            of = possible.get(f"{dotted(file)}.{group}.{function}", 1)
            case = int(method[len(function) :] or 0)
            found.append(({"test": f"{file}.{group}.{function}", "case": case, "of": of}, test))
    return found


def dotted(file: str) -> str:
    """The name of the module."""
    return f"tests.{file.replace('/', '.')}"


def count_cases(helper: types.ModuleType, possible: dict[str, int]) -> None:
    """Let their helper note how many parametrisations every function has."""
    choose = helper.parameters

    def counted(cases):
        cases = list(cases)

        def decorate(function):  # or a class, for all its tests
            name = f"{function.__module__}.{function.__qualname__}"
            tests = [name] if not isinstance(function, type) else [f"{name}.{n}" for n in vars(function)]
            possible.update(dict.fromkeys(tests, len(cases)))
            return choose(cases)(function)

        return decorate

    helper.parameters = counted


def run(chosen: argparse.Namespace) -> None:
    """All tests that the file of rows does not have yet."""
    os.environ["NT_NUM_GENERATED_CASES"] = str(MORE * chosen.cases)
    sys.path.insert(0, str(chosen.checkout.resolve()))
    warnings.simplefilter("ignore")
    import jax
    from absl import flags

    if not chosen.original:
        pretend()
    flags.FLAGS.mark_as_parsed()
    possible: dict[str, int] = {}
    helper = importlib.import_module("tests.test_utils")
    count_cases(helper, possible)
    recorder = Recorder(chosen.rows, chosen.limit)
    rows = {} if chosen.again else latest(chosen.rows)
    if chosen.large:
        helper.skip_test = lambda *_, **__: recorder.row.update(large=True)
        rows = {test: row for test, row in rows.items() if row["outcome"] != "skipped"}
    waiting = []
    for file in FILES:
        if not any(word in file for word in chosen.only.split(",")) or file in WITHOUT:
            continue
        try:
            waiting += tests_of(chosen.checkout, file, possible)
        except ImportError as error:
            print(f"left out {file}: {error}")
    # their own code is written without rank promotion, a matter of style that no user feels
    jax.config.update("jax_numpy_rank_promotion", "allow")
    tried = collections.Counter(row["test"] for row in rows.values() if row["outcome"] != "skipped")
    waiting.sort(key=lambda one: one[0]["case"])
    for count in range(chosen.cases):  # that many have run before
        for row, test in waiting:
            name, key = row["test"], (row["test"], row["case"])
            if tried[name] != count or key in rows or chosen.match not in f"{name}{row['case']}":
                continue
            recorder.begin(row)
            test.run(recorder)
            rows[key] = row
            tried[name] += recorder.outcome != "skipped"


def latest(path: Path) -> dict[tuple[str, int], dict]:
    """The last outcome of every test."""
    lines = path.read_text().splitlines() if path.exists() else []
    return {(row["test"], row["case"]): row for row in map(json.loads, lines)}


# why tests do not pass, where the message of the failure does not say it
REASONS = {
    "batching_test.BatchTest.test_jit_or_pmap_broadcast": "of a private function, its batching on several devices",
    "monte_carlo_test.MonteCarloTest.test_monte_carlo_vs_analytic_ntk": "2.2 % of random error where 2 % is allowed; "
    "with the random numbers of the JAX that it was written for (JAX_THREEFRY_PARTITIONABLE=0) it passes",
}


def table(path: Path) -> str:
    """Markdown: counts per file, then every test that did not pass."""
    rows = [row for row in latest(path).values() if row["outcome"] != "skipped"]
    skipped = {row["test"] for row in latest(path).values()} - {row["test"] for row in rows}
    lines = ["| file | test functions | cases run, of all | passed | failed | stopped |", "|:--|--:|--:|--:|--:|--:|"]
    for file in [*(f for f in FILES if any(r["test"].startswith(f"{f}.") for r in rows)), ""]:
        here = [row for row in rows if row["test"].startswith(f"{file}." if file else "")]
        sizes = {row["test"]: row["of"] for row in here}
        counts = collections.Counter(row["outcome"] for row in here)
        stopped = len(here) - counts["passed"] - counts["failed"]
        cells = [f"`{file}`" if file else "all", len(sizes), f"{len(here)} of {sum(sizes.values())}"]
        cells += [counts["passed"], counts["failed"], stopped]
        lines.append(f"| {' | '.join(map(str, cells))} |")
    missed = [row for row in rows if row["outcome"] != "passed"]
    functions = {row["test"] for row in rows}
    whole = functions - {row["test"] for row in missed}
    commits = sorted({row.get("commit", "before 40fdc1a") for row in rows})
    seconds, large = sum(row["seconds"] for row in rows), sum(row.get("large", False) for row in rows)
    lines += [
        "",
        f"{1 - len(missed) / len(rows):.1%} of the cases passed (those that were stopped, because they took too long, "
        f"count as not passed), and {len(whole)} of {len(functions)} test functions passed every case that was run "
        f"({len(whole) / len(functions):.1%}). They took {seconds / 60:.0f} minutes of processor time; all cases would "
        f"take {_all_seconds(rows) / 3600:.0f} hours. {large} of the cases are left out by their suite itself on a CPU "
        f"and were run all the same. The outcomes are of the commits {', '.join(commits)}.",
    ]
    if skipped:
        lines += [
            "",
            f"Left out by their suite itself and not run: {', '.join(f'`{one}`' for one in sorted(skipped))}.",
        ]
    lines += ["", "| not passed | reason |", "|:--|:--|"]
    for row in missed:
        reason = REASONS.get(row["test"]) or " ".join(row["reason"].replace("|", "/").split())[:200]
        lines.append(f"| `{row['test']}`, case {row['case']} | {row['outcome']}: {reason} |")
    return "\n".join(lines)


def _all_seconds(rows: list[dict]) -> float:
    """What all parametrisations would take, at the mean of those that were run."""
    taken = collections.defaultdict(list)
    for row in rows:
        taken[row["test"], row["of"]].append(row["seconds"])
    return sum(of * sum(seconds) / len(seconds) for (_, of), seconds in taken.items())


def main() -> None:
    """Run, print, save."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkout", type=Path, nargs="?")
    parser.add_argument("--rows", type=Path, help="where every outcome is added as a line")
    parser.add_argument("--cases", type=int, default=1, help="random parametrisations of each test function")
    parser.add_argument("--only", default="", help="files whose name has one of these words in it, split by commas")
    parser.add_argument("--match", default="", help="tests whose name and number have this in them")
    parser.add_argument("--limit", type=int, default=120, help="seconds of processor time that one test may take")
    parser.add_argument("--again", action="store_true", help="also those that --rows has")
    parser.add_argument("--large", action="store_true", help="also what their suite leaves out on a CPU")
    parser.add_argument("--original", action="store_true", help="neural-tangents itself")
    parser.add_argument("--table", type=Path, help="only print the outcomes of a file of rows")
    chosen = parser.parse_args()
    if chosen.table:
        print(table(chosen.table))
    elif chosen.checkout is None or chosen.rows is None:
        parser.error("give a checkout and --rows, or --table")
    else:
        run(chosen)


if __name__ == "__main__":
    main()
