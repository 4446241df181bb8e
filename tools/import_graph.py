"""Print which room imports which, the cycles among them, and imports of another room's private names.

    python tools/import_graph.py [--check] [folder of the package]

Imports inside functions and those by `import_module("widetail...")` count like any other. `--check` prints only what
is wrong, and ends with status 1 if there is a cycle, a private import that is not excused below, or a needless excuse.
The order of the rooms is checked by import-linter (`[tool.importlinter]` in `pyproject.toml`).
"""

import argparse
import ast
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

PACKAGE = "widetail"

# Module and private module or name that it imports from another room: why.
EXCUSED: dict[tuple[str, str], str] = {}


class Import(NamedTuple):
    """One statement, or one name of `from widetail import ...`."""

    module: str
    line: int
    target: str
    names: tuple[str, ...]

    @property
    def room(self) -> str:
        return room_of(self.module)

    @property
    def private_targets(self) -> list[str]:
        """The private modules and names that it takes from the other room."""
        if any(part.startswith("_") for part in self.target.split(".")[2:]):
            return [self.target]
        return [f"{self.target}.{name}" for name in self.names if name.startswith("_") and name != "__version__"]


def room_of(module: str) -> str:
    """The part of a module's name after the package's: `widetail.nn._base` is of the room `nn`."""
    return [*module.split("."), ""][1]


def imports_of(package: Path) -> Iterator[Import]:
    """Every import of one room by another; the package's own list of names is no room."""
    for path in sorted(package.rglob("*.py")):
        parts = path.relative_to(package).with_suffix("").parts
        module = ".".join([PACKAGE, *(part for part in parts if part != "__init__")])
        if room_of(module).startswith("_") or module == PACKAGE:
            continue
        for found in _statements(module, ast.parse(path.read_text())):
            if room_of(found.target) not in ("", found.room) and not room_of(found.target).startswith("_"):
                yield found


def _statements(module: str, tree: ast.Module) -> Iterator[Import]:
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module == PACKAGE:
            for alias in node.names:
                yield Import(module, node.lineno, f"{PACKAGE}.{alias.name}", ())
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith(f"{PACKAGE}."):
            yield Import(module, node.lineno, str(node.module), tuple(alias.name for alias in node.names))
        elif isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.startswith(f"{PACKAGE}."):
                    yield Import(module, node.lineno, alias.name, ())
        elif isinstance(node, ast.Call) and getattr(node.func, "attr", getattr(node.func, "id", "")) == "import_module":
            name = node.args[0] if node.args else None
            if isinstance(name, ast.Constant) and str(name.value).startswith(f"{PACKAGE}."):
                yield Import(module, node.lineno, str(name.value), ())


def cycles(edges: dict[str, set[str]]) -> list[list[str]]:
    """Groups of rooms that reach each other."""
    reached = {room: _reachable(edges, room) for room in edges}
    groups = {
        tuple(sorted({room} | {other for other in reached[room] if room in reached.get(other, ())}))
        for room in edges
        if room in reached[room]
    }
    return sorted(map(list, groups))


def _reachable(edges: dict[str, set[str]], start: str) -> set[str]:
    seen: set[str] = set()
    waiting = list(edges.get(start, ()))
    while waiting:
        room = waiting.pop()
        if room not in seen:
            seen.add(room)
            waiting.extend(edges.get(room, ()))
    return seen


def main() -> int:
    """Print the graph, or what is wrong with it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("package", nargs="?", type=Path, default=Path(__file__).parent.parent / "src" / PACKAGE)
    arguments = parser.parse_args()
    found = list(imports_of(arguments.package))
    if not found:
        parser.error(f"no imports between rooms in {str(arguments.package)!r}: is it the folder of the package?")

    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for statement in found:
        counts[statement.room][room_of(statement.target)] += 1
    circles = cycles({room: set(targets) for room, targets in counts.items()})
    private = [(statement, target) for statement in found for target in statement.private_targets]
    unexcused = [(statement, target) for statement, target in private if (statement.module, target) not in EXCUSED]
    needless = set(EXCUSED) - {(statement.module, target) for statement, target in private}

    if not arguments.check:
        for room in sorted(counts):
            print(f"{room} -> {', '.join(f'{target} {count}' for target, count in sorted(counts[room].items()))}")
        statements = len({(statement.module, statement.line) for statement, _ in private})
        print(f"\n{len(found)} imports between rooms, {statements} of them of private names.")
    for circle in circles:
        print(f"cycle: {', '.join(circle)}")
    for statement, target in unexcused:
        print(f"{statement.module}:{statement.line} imports {target}, which is private to another room")
    for module, target in sorted(needless):
        print(f"tools/import_graph.py excuses that {module} imports {target}, which it does not")
    return int(arguments.check and bool(circles or unexcused or needless))


if __name__ == "__main__":
    sys.exit(main())
