"""Programs as kernels."""

import dataclasses
import functools
import inspect
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from widetail.checks import as_parameter, check_count, check_variance
from widetail.files import savable
from widetail.kernels import Get, KernelValues, Rows, largest_of_four
from widetail.nn import Parametrisation
from widetail.programs._finite import FiniteProgram
from widetail.programs.language._discovery import as_array, decomposition, discover, hashable, static
from widetail.programs.language._front_end import GraphMaker
from widetail.programs.language._source import InputError, ProgramError
from widetail.programs.limits._accuracy import KernelOfIntegrals, accuracy
from widetail.programs.limits._expressions import Decomposition
from widetail.programs.limits._options import Accuracy, Options
from widetail.programs.limits._plans import needs, run_plan
from widetail.programs.limits._simulation import drawn_variables, simulated
from widetail.programs.statements import Graph

# Of so many arrays that are computed for a tile, one is alive at a time.
ALIVE = 8


@savable("programs.Program")
class Program(KernelOfIntegrals):
    """A tensor program: made by `programs.program` from a function of `p` and the inputs.

    It is a kernel like any other: `kernel`, `diagonal`, `cost` and `pull_back` work as for networks, and it goes
    wherever a network does. Calling it with keyword arguments gives the program with other settings.

    Attributes:
        fn: the function.
        settings: its keyword arguments, as pairs.
        masked: whether the last feature of an input says which positions are there; see `pack`.
        options: accuracy of integrals without a closed form.
        variances: the variances of its matrices and biases by name: its parameters, what gradients go to.
        written: the variances as the program itself gives them.
    """

    fn: Callable[..., Any] = eqx.field(static=True)
    settings: tuple[tuple[str, Any], ...] = eqx.field(static=True)
    masked: bool = eqx.field(static=True)
    options: Options = eqx.field(static=True)
    variances: dict[str, Any]
    written: tuple[tuple[str, Any], ...] = eqx.field(static=True, default=())

    @property
    def integrals(self) -> Options:
        return self.options

    def __call__(self, **settings: Any) -> "Program":
        """The same program with other settings; its variances are those that the settings give."""
        if isinstance(self.fn, GraphMaker):
            raise ValueError(f"{self} was made from a graph of statements and has no settings; got {sorted(settings)}.")
        return make_program(self.fn, dict(self.settings) | settings, masked=self.masked, options=self.options)

    def with_variances(self, **variances: Any) -> "Program":
        """The same program with some variances replaced; names as in `variances`.

        Example:
            >>> from widetail import programs
            >>> programs.rnn().with_variances(W=2.0).variances["W"]
            2.0
        """
        unknown = sorted(set(variances) - set(self.variances))
        if unknown:
            raise ValueError(f"{self} has no variances {unknown}; it has {sorted(self.variances)}.")
        for name, value in variances.items():
            check_variance(name, value, may_be_vector=jnp.ndim(self.variances[name]) == 1)
        changed = self.variances | {name: as_parameter(value) for name, value in variances.items()}
        return self._replace(variances=changed)

    def bind(self, input_shape: tuple[int, ...]) -> "Program":
        """The same program with the variances of everything that inputs of this shape need among its parameters.

        A program is tried on small inputs when it is made. If it makes matrices as it goes through the positions of
        longer inputs, those are not known by then: they keep the variances that are written in the program.
        """
        graph = self.graph(tuple(input_shape))
        written = tuple((name, hashable(random.var)) for name, random in graph.randoms.items())
        return self._replace(variances=self.variances_of(graph), written=written)

    def graph(self, input_shape: tuple[int, ...]) -> Graph:
        """The statements of the program for inputs of one shape."""
        return decomposition(self.fn, self.settings, tuple(input_shape), self.masked).graph

    def variances_of(self, graph: Graph) -> dict[str, Any]:
        """The variances of all matrices and biases of a graph.

        Where a program makes a variance depend on the shape of its inputs, what was written for this shape is scaled
        as the parameter is scaled against what was written for the shape it was tried on.
        """
        found, written = {}, dict(self.written)
        for name, random in graph.randoms.items():
            here, there = hashable(random.var), written.get(name)
            if name not in self.variances or (here != there and there == 0):
                found[name] = random.var
            elif here == there:
                found[name] = self.variances[name]
            else:
                found[name] = self.variances[name] * (np.asarray(here, float) / np.asarray(there, float))
        return found

    def saved_fields(self) -> dict[str, Any]:
        """What a file holds; a ValueError for a program that is not of the library."""
        from widetail.programs._saved import fields_of  # it knows the library, which is made of programs

        return fields_of(self)

    @classmethod
    def from_saved(cls, fields: dict[str, Any]) -> "Program":
        """The program whose `saved_fields` these are."""
        from widetail.programs._saved import program_from

        return program_from(fields)

    def with_parameters(self, variances: dict[str, Any], written: tuple[tuple[str, Any], ...]) -> "Program":
        """The same program with all variances, and what they were written as, replaced."""
        return self._replace(variances=variances, written=written)

    def _replace(self, **changes: Any) -> "Program":
        fields = {field.name: getattr(self, field.name) for field in dataclasses.fields(Program)}
        return Program(**(fields | changes))

    # The interface of a kernel.

    def replicates_of_rows(self, x: Any, get: Get) -> tuple[dict[str, Any], KernelValues]:
        return self._values((Rows(x, {}, KernelValues()),), get)

    def replicates_of_pairs(self, rows1: Rows, rows2: Rows, get: Get) -> KernelValues:
        return self._values((rows1, rows2), get)[1]

    def check_shape(self, name: str, input_shape: tuple[int, ...]) -> None:
        """Trace the program for this shape."""
        try:
            self.graph(tuple(input_shape))
        except InputError as error:
            shape = ", ".join(map(str, input_shape))
            refused = InputError(f"{name} of shape (n, {shape}) does not fit the program {self}: {error}")
            refused.place = error.place
            raise refused from None

    def largest_input(self, dtype: Any) -> float:
        """As that of a network of layers."""
        return largest_of_four(dtype)

    def numbers_per_pair(self, input_shape: tuple[int, ...]) -> int:
        """The covariances that are computed for a pair, some of which are alive at a time."""
        found = needs(self.decomposed(tuple(input_shape)))
        if found is None:
            return 1  # what a simulation needs does not grow with the number of pairs
        return max(1, len(found.products) // ALIVE)

    def needed_covariances(self, input_shape: tuple[int, ...]) -> list[tuple[int, int]]:
        """The pairs of arguments of functions whose covariance the kernel needs, for inputs of one shape.

        Of programs that are simulated, those of all variables that are drawn.
        """
        found = needs(self.decomposed(tuple(input_shape)))
        if found is not None:
            return sorted(found.asked)
        graph = self.graph(tuple(input_shape))
        drawn = drawn_variables(graph)
        return [(a, b) for a in drawn for b in drawn if a <= b and graph.lines[a].roots & graph.lines[b].roots]

    def accuracy(self, x1: Any, x2: Any = None) -> list[Accuracy]:
        """Estimated errors of the kernel (`get="nngp"`) with these options, from the first few rows.

        Args:
            x1: inputs, as in `kernel`; the first 8 rows are used.
            x2: inputs, or None for `x1` with itself.

        Returns:
            One entry for each row with itself and one for pairs. `kernel` itself raises the number of polynomials where
            the options do not suffice, so it may be better than this.
        """
        return accuracy(self, self._replace(options=self.options.finer()), x1, x2)

    def with_options(
        self, *, order: int | None = None, degree: int | None = None, samples: int | None = None
    ) -> "Program":
        """The same program with another accuracy.

        Args:
            order: an even number of Hermite polynomials for functions of one variable.
            degree: an even number: for functions of two dependent variables, polynomials of a smaller total degree.
            samples: points of quasi-Monte Carlo, a power of two.
        """
        given = {"order": order, "degree": degree, "samples": samples}
        options = dataclasses.replace(
            self.options, **{name: value for name, value in given.items() if value is not None}
        )
        for name in ("order", "degree"):
            value = getattr(options, name)
            if not isinstance(value, int) or value < 2 or value % 2:
                raise ValueError(f"{name} must be an even integer, at least 2; got {value!r}.")
        if not isinstance(options.samples, int) or options.samples < 64 or options.samples & (options.samples - 1):
            raise ValueError(f"samples must be a power of two, at least 64; got {options.samples!r}.")
        return self._replace(options=options)

    def at_width(self, width: int, *, outputs: int = 1, parametrisation: Parametrisation = "ntk") -> FiniteProgram:
        """The same program, finite.

        Args:
            width: entries of every vector.
            outputs: how many functions the readout gives.
            parametrisation: "ntk" (parameters are standard normal, variances are factors in the forward pass) or
                "standard" (parameters have their prior variances).

        Example:
            >>> import jax
            >>> from widetail import programs
            >>> f = programs.rnn().at_width(64)
            >>> params = f.init(jax.random.key(0), (7, 3))
            >>> f.apply(params, jax.numpy.ones((5, 7, 3))).shape
            (5, 1)
        """
        width, outputs = check_count("width", width), check_count("outputs", outputs)
        if parametrisation not in ("ntk", "standard"):
            raise ValueError(f"parametrisation must be 'ntk' or 'standard'; got {parametrisation!r}.")
        return FiniteProgram(self, width, outputs, parametrisation)

    def __repr__(self) -> str:
        settings = ", ".join(f"{name}={_show(value)}" for name, value in self.settings)
        return f"{getattr(self.fn, '__name__', 'program')}({settings})"

    def decomposed(self, input_shape: tuple[int, ...]) -> Decomposition:
        """The statements for inputs of one shape, and what is known of them without numbers."""
        return decomposition(self.fn, self.settings, tuple(input_shape), self.masked)

    def _values(self, sides: tuple[Rows, ...], get: Get) -> tuple[dict[str, Any], KernelValues]:
        """What is known of each row of one side, and the kernels of it or of all pairs of two, once per replicate."""
        programs = tuple(self.decomposed(rows.inputs.shape[1:]) for rows in sides)
        variances = {}
        for program in programs:
            variances |= self.variances_of(program.graph)
        tangent = get != "nngp"
        if any(needs(program) is None for program in programs):
            graphs = tuple(program.graph for program in programs)
            inputs = tuple(rows.inputs for rows in sides)
            nngp, ntk = simulated(graphs, variances, inputs, self.options.samples, tangent=tangent)
            return {}, KernelValues(None if get == "ntk" else nngp, ntk)
        nngp, ntk, statistics = run_plan(programs, self.options, tangent, variances, sides)
        return statistics, KernelValues(None if get == "ntk" else nngp, ntk)


def _show(value: Any) -> str:
    return getattr(value, "__name__", None) or repr(value)


def make_program(
    fn: Callable[..., Any], settings: dict[str, Any], *, masked: bool = False, options: Options | None = None
) -> Program:
    """A program from a function and settings that its keyword arguments accept."""
    parameters = inspect.signature(fn).parameters
    free = [name for name, parameter in parameters.items() if parameter.default is inspect.Parameter.empty]
    if len(free) != 2:
        raise ProgramError(
            f"a program is a function of p and the inputs, def {getattr(fn, '__name__', 'program')}(p, xs, ...), "
            f"where everything else has a default; got the arguments {', '.join(parameters)}."
        )
    known = {name: parameter.default for name, parameter in parameters.items() if name not in free}
    unknown = sorted(set(settings) - set(known))
    if unknown:
        raise ValueError(f"{getattr(fn, '__name__', 'program')} has no settings {unknown}; it has {sorted(known)}.")
    frozen = tuple((name, static(name, value)) for name, value in (known | settings).items())
    try:
        hash(frozen)
    except TypeError as error:
        raise ValueError(f"the settings of a program must be plain values: {error}.") from None
    randoms = discover(fn, frozen, masked)
    variances = {name: as_parameter(as_array(random.var)) for name, random in randoms.items()}
    written = tuple((name, hashable(random.var)) for name, random in randoms.items())
    return Program(fn, frozen, masked, options or Options(), variances, written)


def from_graph(
    make: Callable[[tuple[int, ...]], Graph], input_shape: tuple[int, ...], *, name: str = "program"
) -> Program:
    """A program from graphs of statements, for front ends that have their own way of reading a model.

    Args:
        make: called with the shape of one input; gives the graph for it, always the same one, with its `output` set. It
            may refuse a shape by raising a `ProgramError`.
        input_shape: a shape that it takes, from which the variances are learned.
        name: what messages call the program.

    Example:
        >>> import jax.numpy as jnp
        >>> import numpy as np
        >>> from widetail import programs
        >>> from widetail.programs import statements as st
        >>> def make(input_shape):
        ...     graph = st.Graph(input_shape)
        ...     graph.add_random("U", "input_matrix", 1.5)
        ...     graph.output = graph.add(st.Nonlin(jnp.tanh, (graph.add(st.InputProduct("U", 0)),)))
        ...     return graph
        >>> programs.from_graph(make, (3,)).kernel(np.ones((2, 3))).nngp.shape
        (2, 2)
    """
    maker = GraphMaker(make, name)
    graph = maker.graph(tuple(input_shape))
    program = Program(maker, (), graph.masked, Options(), {}, ())
    bound = program.bind(tuple(input_shape))
    return bound._replace(variances={name: as_parameter(as_array(var)) for name, var in bound.variances.items()})


def program(fn: Any = None, *, masked: bool = False) -> Any:
    """Turn a function into a tensor program.

    Args:
        fn: a function of `p` (which makes matrices, biases and the rest) and of one input: `x`, a vector, for
            data of shape (n, features); a sequence or an image of them, to iterate or to index, for data of shape
            (n, time, features) or (n, height, width, features). It returns the vector that the readout sees. Further
            arguments with defaults are settings.
        masked: the last feature of an input is a flag that says whether a position is there; see `pack`.

    Example:
        >>> import jax.numpy as jnp
        >>> import numpy as np
        >>> import widetail as wt
        >>> @wt.programs.program
        ... def rnn(p, xs):
        ...     W, U, b = p.matrix(var=1.6), p.input_matrix(var=0.8), p.bias(var=0.1)
        ...     h = p.zeros()
        ...     for x in xs:
        ...         h = p.nonlin(jnp.tanh, W @ h + U @ x + b)
        ...     return h
        >>> rnn.kernel(np.ones((2, 5, 3))).nngp.shape
        (2, 2)
    """
    if fn is None:
        return functools.partial(program, masked=masked)
    if not callable(fn):
        raise ValueError(f"program decorates a function; got {fn!r}.")
    return make_program(fn, {}, masked=masked)
