"""A program in the terms of the theory: its statements and the covariances that it needs."""

import dataclasses
from typing import Any

from widetail.programs._program import Program
from widetail.programs.language._derived import SoftmaxEntry, WithNumber
from widetail.programs.statements import (
    Average,
    BiasVector,
    Constant,
    Given,
    Graph,
    InputFeature,
    InputProduct,
    LinComb,
    MatMul,
    Nonlin,
    Presence,
    ScalarFunction,
    Term,
)

# More statements or covariances are cut short in print; the graph has them all.
MOST_PRINTED = 60


@dataclasses.dataclass(frozen=True)
class Explanation:
    """A program as statements, printed by `print`.

    Attributes:
        program: the program.
        graph: its statements for the shape that was asked for.
        covariances: the pairs of arguments of functions whose covariance its kernel needs, as places in
            `graph.lines`; those of other G-variables follow from the same induction.
    """

    program: Program
    graph: Graph
    covariances: tuple[tuple[int, int], ...]

    def __str__(self) -> str:
        return "\n".join(_text(self))

    def dot(self) -> str:
        """The graph in the language of Graphviz, for `dot -Tsvg`."""
        shapes = {"G": "ellipse", "H": "box", "S": "diamond"}
        lines = self.graph.lines
        text = ["digraph program {", "  rankdir=LR;"]
        for name, random in self.graph.randoms.items():
            if random.kind != "bias":
                text.append(f'  "A {name}" [label="{name}", shape=octagon];')
        for index in self.graph.needed():
            statement = lines[index].statement
            text.append(f'  v{index} [label="{lines[index].name}", shape={shapes[lines[index].kind]}];')
            text += [f"  v{used} -> v{index};" for used in statement.uses]
            if isinstance(statement, (MatMul, InputProduct)):
                text.append(f'  "A {statement.matrix}" -> v{index} [style=dashed];')
            if isinstance(statement, InputProduct):
                text.append(f'  "x {statement.position}" -> v{index};')
        text += [f'  v{self.graph.output} -> "readout";', "}"]
        return "\n".join(text)

    def draw(self, axes: Any = None) -> Any:
        """Draw the graph with matplotlib, from the inputs on the left to the readout on the right.

        Ellipses are G-variables, boxes H-variables, and every matrix has a colour of its own, so that shared weights
        show as equal colours.

        Args:
            axes: matplotlib axes; a new figure by default.

        Returns:
            The axes.
        """
        import matplotlib.pyplot as plt

        graph, needed = self.graph, self.graph.needed()
        depth: dict[int, int] = {}
        rows: dict[int, int] = {}
        for index in needed:
            used = graph.lines[index].statement.uses
            depth[index] = 1 + max((depth[other] for other in used), default=0)
        place: dict[int, tuple[float, float]] = {}
        for index in needed:
            row = rows.get(depth[index], 0)
            rows[depth[index]] = row + 1
            place[index] = (float(depth[index]), -float(row))
        if axes is None:
            size = (min(16.0, 1.1 * max(depth.values()) + 1), min(9.0, 0.8 * max(rows.values()) + 1))
            _, axes = plt.subplots(figsize=size, layout="constrained")
        matrices = [name for name, random in graph.randoms.items() if random.kind != "bias"]
        colours = {name: f"C{number % 10}" for number, name in enumerate(matrices)}
        for index in needed:
            line = graph.lines[index]
            for used in line.statement.uses:
                colour = colours.get(getattr(line.statement, "matrix", ""), "0.6")
                axes.annotate(
                    "",
                    place[index],
                    place[used],
                    arrowprops={"arrowstyle": "->", "color": colour, "shrinkA": 12, "shrinkB": 12},
                )
            style = {"G": "round,pad=0.3", "H": "square,pad=0.3", "S": "circle,pad=0.2"}[line.kind]
            edge = colours.get(getattr(line.statement, "matrix", ""), "0.2")
            box = {"boxstyle": style, "facecolor": "white", "edgecolor": edge}
            axes.text(*place[index], line.name, ha="center", va="center", fontsize=8, bbox=box)
        for name, colour in colours.items():
            axes.plot([], [], color=colour, label=name)
        if colours:
            axes.legend(frameon=False, loc="lower right", fontsize=8)
        axes.set_xlim(0.4, max(depth.values()) + 0.6)
        axes.set_ylim(-max(rows.values()) + 0.4, 0.6)
        axes.axis("off")
        return axes


def explain(program: Program, input_shape: tuple[int, ...]) -> Explanation:
    """A program as statements, with its G-, H- and A-variables, and the covariances that its kernel needs.

    Args:
        program: a program.
        input_shape: shape of one input, without the rows.

    Example:
        >>> from widetail import programs
        >>> print(programs.explain(programs.rnn, (2, 3)))
        rnn, for inputs of shape (2, 3)
        A  W   matrix, entries N(0, 1.6 / width)
        A  U   input matrix, entries N(0, 0.8 / 3)
        G  b   bias, entries N(0, 0.1)
        G  g   = U @ x[0]
        G  g.2 = g + b
        H  h.1 = tanh(g.2)
        G  g.3 = W @ h.1
        G  g.4 = U @ x[1]
        G  g.6 = g.3 + g.4 + b
        H  h.2 = tanh(g.6)
        readout of h.2
        covariances needed between inputs (2): (g.2, g.2), (g.6, g.6)
    """
    if not isinstance(program, Program):
        raise ValueError(f"explain needs a program, made with @programs.program; got {program!r}.")
    shape = tuple(input_shape)
    program.check_shape("input_shape", shape)
    return Explanation(program, program.graph(shape), tuple(program.needed_covariances(shape)))


def _text(explanation: Explanation) -> list[str]:
    graph, program = explanation.graph, explanation.program
    variances = program.variances_of(graph)
    needed = graph.needed()
    used = {getattr(graph.lines[index].statement, "matrix", None) for index in needed}
    width = max([len(graph.lines[index].name) for index in needed] + [len(name) for name in graph.randoms])
    name = getattr(program.fn, "__name__", "program")
    text = [f"{name}, for inputs of shape {graph.input_shape}"]
    for key, random in graph.randoms.items():
        if random.kind != "bias" and key in used:
            fan_in = "width" if random.kind == "matrix" else str(graph.features)
            kind = random.kind.replace("_", " ")
            text.append(f"A  {key:{width}} {kind}, entries N(0, {variances[key]} / {fan_in})")
    for index in needed[:MOST_PRINTED]:
        line = graph.lines[index]
        body = _statement(graph, line.statement, variances)
        text.append(f"{line.kind}  {line.name:{width}} {body}")
    if len(needed) > MOST_PRINTED:
        text.append(f"... and {len(needed) - MOST_PRINTED} statements more")
    text.append(f"readout of {graph.lines[graph.output].name}")
    pairs = [f"({graph.lines[a].name}, {graph.lines[b].name})" for a, b in explanation.covariances]
    rest = f", ... and {len(pairs) - MOST_PRINTED} more" if len(pairs) > MOST_PRINTED else ""
    text.append(f"covariances needed between inputs ({len(pairs)}): {', '.join(pairs[:MOST_PRINTED])}{rest}")
    return text


def _statement(graph: Graph, statement: Any, variances: dict[str, Any]) -> str:
    names = [line.name for line in graph.lines]
    match statement:
        case Constant():
            return f"= {statement.value:g}, every entry"
        case InputProduct():
            return f"= {statement.matrix} @ x{_position(graph, statement.position)}"
        case BiasVector():
            return f"bias, entries N(0, {variances[statement.bias]})"
        case MatMul():
            return f"= {statement.matrix} @ {names[statement.vector]}"
        case LinComb():
            return f"= {_sum(names, statement.terms)}"
        case Nonlin() | ScalarFunction():
            arguments = ", ".join(names[argument] for argument in statement.arguments)
            return f"= {_function(statement.fn)}({arguments})"
        case Average():
            return f"= average of {names[statement.vector]} over the width"
        case InputFeature():
            return f"= feature {statement.feature} of x{_position(graph, statement.position)}"
        case Given():
            return f"what the network below makes at position {statement.position}"
        case Presence():
            return f"= 1 where x{_position(graph, statement.position)} is present, else 0"
    raise AssertionError(statement)


def _position(graph: Graph, position: int) -> str:
    if not graph.space:
        return ""
    indices = []
    for size in reversed(graph.space):
        position, index = divmod(position, size)
        indices.append(index)
    return "[" + ", ".join(map(str, reversed(indices))) + "]"


def _sum(names: list[str], terms: tuple[Term, ...]) -> str:
    text = ""
    for term in terms:
        factors = [] if abs(term.number) == 1 else [f"{abs(term.number):g}"]
        factors += [names[index] for index in (term.scalar, term.variable) if index is not None]
        sign = "-" if term.number < 0 else "+"
        text += f" {sign} " if text else "-" if term.number < 0 else ""
        text += " ".join(factors)
    return text or "0"


def _function(fn: Any) -> str:
    if isinstance(fn, WithNumber):
        return f"{fn.__name__} {fn.number:g}"
    if isinstance(fn, SoftmaxEntry):
        return fn.__name__
    return getattr(fn, "__name__", None) or repr(fn)
