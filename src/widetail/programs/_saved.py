"""Programs of the library as plain data, and back; a program of the user's own is code, which a file cannot carry."""

from typing import Any

from widetail import nn
from widetail.checks import as_parameter, check_variance
from widetail.programs import library
from widetail.programs._program import Program
from widetail.programs.language._functions import recognise

MOST_LAYERS = 1000  # of any number among the settings: what a file may ask to be traced
MOST_ORDER = 1024
MOST_SAMPLES = 2**22


def fields_of(program: Program) -> dict[str, Any]:
    """Name in the library, settings, variances and accuracy."""
    members = {name: getattr(library, name) for name in library.__all__}
    name = next((n for n, own in members.items() if isinstance(own, Program) and own.fn is program.fn), None)
    if name is None:
        raise ValueError(
            f"{program} cannot be saved: it is a function of your own, and a file holds no code. Keep the model in "
            f"memory, or save x, y and program.variances and fit again."
        )
    return {
        "program": name,
        "settings": {setting: _known(value) for setting, value in program.settings},
        "variances": dict(program.variances),
        "written": program.written,
        "order": program.options.order,
        "degree": program.options.degree,
        "samples": program.options.samples,
    }


def program_from(fields: dict[str, Any]) -> Program:
    """The program whose fields these are; a ValueError for anything else."""
    name, settings, order, samples = (fields[key] for key in ("program", "settings", "order", "samples"))
    degree = fields.get("degree")  # not in files of version 1
    made = getattr(library, name, None) if name in library.__all__ else None
    if not isinstance(made, Program):
        raise ValueError(f"widetail.programs has no program called {name!r}")
    numbers = [value for value in (*settings.values(), degree) if isinstance(value, (int, float))]
    if any(abs(value) > MOST_LAYERS for value in numbers) or order > MOST_ORDER or samples > MOST_SAMPLES:
        raise ValueError(f"a number among {settings}, order={order} and samples={samples} is too large")
    made = made(**settings).with_options(order=order, degree=degree, samples=samples)
    variances, written = fields["variances"], fields.get("written", made.written)
    for variable, value in variances.items():
        check_variance(variable, value, may_be_vector=True)
    if set(variances) != {variable for variable, _ in written}:
        raise ValueError(f"variances {sorted(variances)} are not those of the program")
    return made.with_parameters({key: as_parameter(value) for key, value in variances.items()}, written)


def _known(value: Any) -> Any:
    """A setting that a file can hold: functions of JAX as the activations that they are."""
    if isinstance(value, nn.Activation) or not callable(value):
        return value
    activation = recognise(value)
    return value if activation is None else activation
