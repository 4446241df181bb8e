"""Programs for common architectures, each a short function."""

from widetail.programs.library._attention import self_attention as self_attention
from widetail.programs.library._attention import transformer as transformer
from widetail.programs.library._convolutional import cnn as cnn
from widetail.programs.library._convolutional import graph_convolution as graph_convolution
from widetail.programs.library._feedforward import layer_norm_mlp as layer_norm_mlp
from widetail.programs.library._feedforward import mlp as mlp
from widetail.programs.library._feedforward import normalise as normalise
from widetail.programs.library._feedforward import resnet as resnet
from widetail.programs.library._feedforward import tied_mlp as tied_mlp
from widetail.programs.library._recurrent import averaged_rnn as averaged_rnn
from widetail.programs.library._recurrent import gru as gru
from widetail.programs.library._recurrent import packed_rnn as packed_rnn
from widetail.programs.library._recurrent import rnn as rnn

__all__ = [
    "averaged_rnn",
    "cnn",
    "graph_convolution",
    "gru",
    "layer_norm_mlp",
    "mlp",
    "normalise",
    "packed_rnn",
    "resnet",
    "rnn",
    "self_attention",
    "tied_mlp",
    "transformer",
]
