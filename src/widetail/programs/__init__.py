"""Tensor programs: the infinite-width limit of any architecture, with shared weights."""

from typing import TYPE_CHECKING, Any

from widetail.programs import statements as statements
from widetail.programs._explain import Explanation as Explanation
from widetail.programs._explain import explain as explain
from widetail.programs._finite import FiniteProgram as FiniteProgram
from widetail.programs._on_network import OnNetwork as OnNetwork
from widetail.programs._on_network import on_network as on_network
from widetail.programs._pack import pack as pack
from widetail.programs._program import Program as Program
from widetail.programs._program import from_graph as from_graph
from widetail.programs._program import program as program
from widetail.programs.language._language import Builder as Builder
from widetail.programs.language._source import ProgramError as ProgramError
from widetail.programs.limits._accuracy import AccuracyWarning as AccuracyWarning
from widetail.programs.limits._accuracy import QuasiMonteCarloWarning as QuasiMonteCarloWarning
from widetail.programs.limits._options import Accuracy as Accuracy

if TYPE_CHECKING:
    from widetail.programs.library import averaged_rnn as averaged_rnn
    from widetail.programs.library import cnn as cnn
    from widetail.programs.library import graph_convolution as graph_convolution
    from widetail.programs.library import gru as gru
    from widetail.programs.library import layer_norm_mlp as layer_norm_mlp
    from widetail.programs.library import mlp as mlp
    from widetail.programs.library import normalise as normalise
    from widetail.programs.library import packed_rnn as packed_rnn
    from widetail.programs.library import resnet as resnet
    from widetail.programs.library import rnn as rnn
    from widetail.programs.library import self_attention as self_attention
    from widetail.programs.library import tied_mlp as tied_mlp
    from widetail.programs.library import transformer as transformer


def __getattr__(name: str) -> Any:
    """The programs of the library, made when they are first asked for: that takes longer than an import may."""
    if not name.startswith("_"):
        import importlib

        library = importlib.import_module("widetail.programs.library")
        if name in library.__all__:
            return getattr(library, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
