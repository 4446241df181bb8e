"""What became of each line of the user's model."""

from typing import Any

from widetail.programs import statements as st

_WORDS = {
    "InputProduct": "matrix x input",
    "MatMul": "matrix x vector",
    "Given": "what the layers give",
    "InputFeature": "a number of the input",
    "BiasVector": "Gaussian vector",
    "LinComb": "sum",
    "Nonlin": "nonlinearity",
    "Average": "mean over the width",
    "ScalarFunction": "function of scalars",
    "Constant": "constant",
}


def explain(wide: Any) -> str:
    """The parameters with their laws, then the lines with what they compute, then the readout."""
    info = wide.info
    text = [f"limit of a model on inputs of shape {info.input_shape}, {info.engine}", "parameters:"]
    longest = max(len(leaf.path) for leaf in info.leaves)
    for number, leaf in enumerate(info.leaves):
        text.append(f"  {leaf.path:<{longest}}  {_law(info, number, leaf)}")
    if info.layers:
        text += ["layers:", *(f"  {layer}" for layer in info.layers)]
    if info.graph is not None:
        text += ["lines:", *_lines(info.graph)]
    readouts = [info.leaves[k].path for k, role in info.roles.items() if role == "readout"]
    text.append(
        f"readout: {', '.join(readouts)}, variance 1 (the scale of the mixture)"
        if readouts
        else "readout: implied, of variance 1"
    )
    return "\n".join(text + [f"note: {note}" for note in info.notes])


def _law(info: Any, number: int, leaf: Any) -> str:
    role = info.roles.get(number)
    if role == "readout bias":
        return "bias of the readout: left out"
    if leaf.is_constant:
        return leaf.note
    if role is None:
        return "not used"
    axes = info.fan_ins.get(number, ())
    if role == "readout":
        return f"readout, entries N(0, 1{'' if leaf.by_entry else ' / fan-in'})"
    var = info.variances[leaf.path]
    if role in ("bias", "table"):
        return f"{role}, entries N(0, {var:g})" if var else f"{role}: zero"
    over = " / fan-in" if axes and not leaf.by_entry else ""
    word = {"input": "input matrix", "filter": "one filter per channel"}.get(role, "matrix")
    return f"{word}, entries N(0, {var:g}{over})"


def _lines(graph: st.Graph) -> list[str]:
    grouped: dict[tuple[str, str], int] = {}
    for index in graph.needed():
        line = graph.lines[index]
        word = _WORDS[type(line.statement).__name__]
        if isinstance(line.statement, st.Nonlin):
            fn = line.statement.fn
            word = f"{word} {getattr(fn, '__name__', None) or fn!r}"
        place = f"{line.place.file.rsplit('/', 1)[-1]}:{line.place.line}" if line.place.line else "<model>"
        key = (f"{place}: {line.place.text}" if line.place.line else place, f"{line.kind}  {word}")
        grouped[key] = grouped.get(key, 0) + 1
    text, last = [], None
    for (place, word), count in grouped.items():
        if place != last:
            text.append(f"  {place}")
            last = place
        text.append(f"      {word}" + (f"  ({count} times)" if count > 1 else ""))
    return text
