import argparse
import sys

from benchmarks import (  # noqa: F401 (they register)
    agreement,
    classification,
    conformal,
    distributed,
    empirical,
    ensembles,
    family,
    few,
    fitting,
    hidden,
    images,
    imports,
    inference,
    kernels,
    laplace,
    masked,
    memory,
    noise,
    programs,
    small,
    sparse,
    stacking,
    streams,
    tables,
    treatments,
    uci,
    widen,
)
from benchmarks._registry import BENCHMARKS
from benchmarks._report import Table, save


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="Speed and memory against the peers.")
    parser.add_argument("names", nargs="*", metavar="name", help="which benchmarks to run; all by default")
    parser.add_argument("--list", action="store_true", help="name the benchmarks and stop")
    parser.add_argument("--save", action="store_true", help="append the results to benchmarks/results/")
    parser.add_argument("--so-far", action="store_true", help="what is kept of an unfinished run, measuring nothing")
    options = parser.parse_args()
    if options.list:
        for entry in BENCHMARKS.values():
            print(f"{entry.name:12} {entry.summary}")
        return 0
    unknown = [name for name in options.names if name not in BENCHMARKS]
    if unknown:
        parser.error(f"no benchmark is called {', '.join(unknown)}; there are {', '.join(BENCHMARKS)}")
    is_reached = True
    for name in options.names or BENCHMARKS:
        print(f"\n{name}: {BENCHMARKS[name].summary}")
        table, results = Table(), []
        run = BENCHMARKS[name].so_far if options.so_far else BENCHMARKS[name].run
        if run is None:
            parser.error(f"{name} keeps no fits; leave --so-far out.")
        for result in run():
            table.add(result)
            results.append(result)
        table.end()
        is_reached &= all(result.get("reached") != "NO" for result in results)
        if options.save:
            print(f"saved to {save(name, results)}")
    return 0 if is_reached else 1


if __name__ == "__main__":
    sys.exit(main())
