"""Run the tests of a neural-tangents checkout against `widetail.compat.neural_tangents`, and say what fails and why.

    git clone https://github.com/google/neural-tangents checkout
    python tools/neural_tangents_tests.py checkout --cases 2 --only stax/linear_test --report found.json

Nothing of the checkout is copied. Their test functions have up to thousands of parametrisations, of which their own
helper draws `--cases` with a fixed seed; how many there are in all is printed. Needs absl-py and more_itertools.
"""

import argparse
import collections
import importlib
import json
import os
import signal
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
    )
    empirical = module("neural_tangents._src.empirical", **vars(_empirical))
    empirical._DEFAULT_TESTING_NTK_IMPLEMENTATION = _empirical.NtkImplementation.JACOBIAN_CONTRACTION
    parts = {
        "batching": module("neural_tangents._src.batching", **vars(_batching)),
        "monte_carlo": module("neural_tangents._src.monte_carlo", **vars(_monte_carlo)),
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


def _size_at(x, axes):
    shape = getattr(x, "shape", x)
    total = 1
    for axis in range(len(shape)) if axes is None else axes:
        total *= shape[axis]
    return total


class TooLongError(Exception):
    """A test took longer than allowed."""


class Recorder(unittest.TestResult):
    """What became of every test."""

    def __init__(self, limit: int):
        super().__init__()
        self.limit, self.rows = limit, []

    def startTest(self, test):  # noqa: N802
        self.began, self.note = time.process_time(), None
        signal.signal(signal.SIGPROF, self._stop)
        signal.setitimer(signal.ITIMER_PROF, self.limit)
        super().startTest(test)

    def _stop(self, *_):
        raise TooLongError(f"longer than {self.limit} s")

    def _record(self, test, outcome, reason=""):
        signal.setitimer(signal.ITIMER_PROF, 0)
        name = test.id().removeprefix("tests.")
        self.rows.append({"test": name, "outcome": outcome, "reason": reason,
                          "seconds": round(time.process_time() - self.began, 1)})  # fmt: skip
        print(f"{outcome:8s} {name.split(chr(32))[0]} {reason}"[:330], flush=True)

    def addSuccess(self, test):  # noqa: N802
        self._record(test, "passed")

    def addSkip(self, test, reason):  # noqa: N802
        self._record(test, "skipped", reason)

    def addError(self, test, err):  # noqa: N802
        self._record(test, "too long" if err[0] is TooLongError else "failed", _why(err))

    addFailure = addError  # noqa: N815

    def addSubTest(self, test, subtest, err):  # noqa: N802
        if err is not None and self.note is None:
            self.note = _why(err)
            self._record(test, "too long" if err[0] is TooLongError else "failed", self.note)


def _why(err) -> str:
    first = (str(err[1]).strip().splitlines() or [""])[0]
    frame, place = err[2], ""
    while frame is not None:
        file = frame.tb_frame.f_code.co_filename
        if "widetail" in file or "tests" in file:
            place = f"{Path(file).name}:{frame.tb_lineno}"
        frame = frame.tb_next
    return f"{err[0].__name__} at {place}: {first}"


def main() -> None:
    """Run, print, save."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkout", type=Path)
    parser.add_argument("--cases", type=int, default=1, help="parametrisations of each test function")
    parser.add_argument("--only", default="", help="files whose name has this in it, separated by commas")
    parser.add_argument("--match", default="", help="test functions whose name has this in it")
    parser.add_argument("--limit", type=int, default=60, help="seconds of processor time that one test may take")
    parser.add_argument("--report", type=Path, help="where to save the outcomes as JSON")
    chosen = parser.parse_args()
    os.environ["NT_NUM_GENERATED_CASES"] = str(chosen.cases)
    sys.path.insert(0, str(chosen.checkout.resolve()))
    warnings.simplefilter("ignore")
    import jax
    from absl import flags

    pretend()
    flags.FLAGS.mark_as_parsed()
    helper = importlib.import_module("tests.test_utils")
    drawn, possible = 0, 0
    their_choice = helper._cases_from_list

    def counted(cases):
        nonlocal drawn, possible
        cases = list(cases)
        kept = their_choice(cases)
        possible, drawn = possible + len(cases), drawn + len(kept)
        return kept

    helper._cases_from_list = counted
    recorder = Recorder(chosen.limit)
    for file in FILES:
        if not any(word in file for word in chosen.only.split(",")):
            continue
        if file in WITHOUT:
            print(f"left out {file}: {WITHOUT[file]}")
            continue
        try:
            module = importlib.import_module(f"tests.{file.replace('/', '.')}")
        except ImportError as error:
            print(f"left out {file}: {error}")
            continue
        # their own code is written without rank promotion, a matter of style that no user feels
        jax.config.update("jax_numpy_rank_promotion", "allow")
        suite = unittest.defaultTestLoader.loadTestsFromModule(module)
        for group in suite:
            for test in group:
                if chosen.match in test.id():
                    test.run(recorder)
    counts = collections.Counter(row["outcome"] for row in recorder.rows)
    ran = sum(counts.values()) - counts["skipped"]
    print(f"\n{counts['passed']} of {ran} passed, {dict(counts)}; drawn {drawn} of {possible} parametrisations")
    if chosen.report:
        summary = {"counts": dict(counts), "drawn": drawn, "possible": possible, "rows": recorder.rows}
        chosen.report.write_text(json.dumps(summary, indent=1))


if __name__ == "__main__":
    main()
