"""Bad arguments and networks: the message names the argument or the layer, what was expected, and what arrived.

The cases run in one process of their own, as users would run them: here, type annotations are checked first.
"""

import json
import re
import subprocess
import sys

import pytest

SET_UP = """
import json, sys
import jax, jax.numpy as jnp, numpy as np
from widetail import kernels, nn
from widetail.nn import *

x, images, key = np.ones((2, 3)), np.ones((2, 4, 4, 1)), jax.random.key(0)
values = kernels.KernelValues(np.ones((2, 2)))

def on(inputs, *layers):
    return Sequential(*layers).kernel(inputs)
"""

POSITIVE = "must be a positive number"
GAUSSIAN = r"must act on the output of nn\.Dense or nn\.Conv"
CASES = {
    # arguments of layers
    "Dense(weight_var=-1.0)": rf"weight_var {POSITIVE} or a vector.*got -1\.0\. \(It is a variance",
    "Dense(weight_var=0)": rf"weight_var {POSITIVE}.*got 0\.0",
    "Dense(weight_var='2')": rf"weight_var {POSITIVE}.*got '2'",
    "Dense(weight_var=None)": rf"weight_var {POSITIVE}.*got None",
    "Dense(weight_var=True)": rf"weight_var {POSITIVE}.*got True",
    "Dense(weight_var=1j)": rf"weight_var {POSITIVE}.*got 1j",
    "Dense(weight_var=float('nan'))": rf"weight_var {POSITIVE}.*got nan",
    "Dense(weight_var=[1.0, -2.0])": rf"weight_var {POSITIVE} or a vector of them, one per input feature; got",
    "Dense(weight_var=['a', 'b'])": rf"weight_var {POSITIVE}.*got \['a', 'b'\]",
    "Dense(weight_var=[[1.0], [1.0, 2.0]])": rf"weight_var {POSITIVE}.*got \[\[1\.0\], \[1\.0, 2\.0\]\]",
    "Dense(weight_var=[[1.0, 2.0]])": r"weight_var .* got an array of shape \(1, 2\)",
    "Dense(bias_var=-0.1)": r"bias_var must be a number, zero or larger; got -0\.1",
    "Dense(bias_var=[0.1, 0.2])": r"bias_var must be a number, zero or larger; got an array of shape \(2,\)",
    "Conv(3, weight_var=[1.0, 2.0])": r"weight_var must be a positive number; got an array of shape \(2,\)",
    "Conv(0)": r"nn\.Conv: window must be a positive integer or a tuple of them, one per axis; got 0",
    "Conv([3, 3])": r"nn\.Conv: window must be .* got \[3, 3\]",
    "Conv(3, strides=0.5)": r"nn\.Conv: strides must be .* got 0\.5",
    "Conv(3, padding='same')": r"nn\.Conv: padding must be 'SAME', 'VALID', 'CIRCULAR' or zeros .* got 'same'",
    "AvgPool(-1)": r"nn\.AvgPool: window must be a positive integer.*got -1",
    "SumPool(2, strides=0)": r"nn\.SumPool: strides must be .*got 0",
    "Monomial(-1)": r"nn\.Monomial: degree must be an integer.*got -1",
    "RectifiedMonomial(50)": r"nn\.RectifiedMonomial: degree must be at most 20; got 50",
    "Polynomial(2.0)": r"nn\.Polynomial: coefficients must be a list of numbers, the constant first",
    "Polynomial([1.0, float('nan')])": r"nn\.Polynomial: coefficients must be finite",
    "Gaussian(-1.0)": "rate must be a positive number",
    "ConvTranspose(3, padding='CIRCULAR')": r"nn\.ConvTranspose: padding must be 'SAME' or 'VALID'",
    "LocalConv(3, 2.0)": r"nn\.LocalConv takes variances by keyword",
    "Slice()": r"nn\.Slice needs an index",
    "Slice('a')": r"nn\.Slice: an index must be an integer or a slice; got 'a'",
    "on(images, Slice(9), Flatten())": r"nn\.Slice\(9\) lies outside of the positions",
    "on(x, Slice(0))": r"nn\.Slice expects sequences or images, but it receives vectors",
    "Resize(14)": r"nn\.Resize: space must be a tuple of positive integers, such as \(14, 14\); got 14",
    "Resize((2, 2), 'area')": r"nn\.Resize: method must be one of 'nearest', .*got 'area'",
    "Aggregate([1.0, 2.0])": r"nn\.Aggregate: matrix must have shape \(positions out, positions in\); got \(2,\)",
    "on(images, Aggregate([[1.0, 2.0]]))": r"nn\.Aggregate\(<1 x 2>\) takes 2 positions, but it receives",
    "DotGeneral([[1.0]], (0, 0))": r"nn\.DotGeneral: axes must be a tuple of different axes from 0 on; got \(0, 0\)",
    "DotGeneral(1.0)": r"nn\.DotGeneral: constant must be a finite array with an axis for each of axes=\(0,\)",
    "on(images, PositionalEmbedding(), Flatten())": r"nn\.PositionalEmbedding must come after the first nn\.Conv",
    "LayerNorm(-1)": r"nn\.LayerNorm: over must be a tuple of axes from 0 on, or 'all'; got -1",
    "on(x, Dense(), LayerNorm((0,)), Relu())": r"nn\.LayerNorm has over=\(0,\), but it receives positions \(\)",
    "Dropout(1.0)": r"rate must be a number in \[0, 1\); got 1\.0",
    "Dropout('a')": r"rate must be a number in \[0, 1\); got 'a'",
    "LeakyRelu('a')": r"negative_slope must be a finite number; got 'a'",
    "Sin(frequency=None)": "frequency must be a finite number; got None",
    "Rbf(gamma=-1)": r"gamma must be a positive number; got -1\.0",
    "SelfAttention(weights='relu')": r"weights must be 'softmax' or 'linear'; got 'relu'",
    "SelfAttention(2.0)": r"nn.SelfAttention takes variances by keyword, nn.SelfAttention\(weight_var=2.0\); got 2.0",
    "SelfAttention(query_key_var=0)": rf"query_key_var {POSITIVE}.*got 0\.0",
    "Elementwise('tanh')": r"nn\.Elementwise needs a function of arrays; got 'tanh'",
    "Elementwise(jnp.tanh, order=3)": "order must be an even integer, at least 2 and at most 4096; got 3",
    "on(x, Dense(), Elementwise(jnp.sum))": r"nn\.Elementwise: the function must act entry by entry.*maps shape",
    "on(x, Dense(), Elementwise(np.tanh))": r"nn\.Elementwise: .*made of JAX operations.*got <ufunc 'tanh'>",
    "Elementwise(jnp.log)": r"nn\.Elementwise: the function is NaN for some real arguments; it must be defined",
    "kernels.RBF(length_scale=0)": rf"length_scale {POSITIVE} or a vector of them, one per input feature; got 0\.0\.$",
    "kernels.RBF(variance='a')": rf"variance {POSITIVE}; got 'a'",
    "kernels.Matern(nu=1)": r"nu must be 0\.5, 1\.5 or 2\.5; got 1",
    # what is put into a composition
    "Sequential()": r"nn\.Sequential needs at least one layer",
    "Sequential(Dense, Relu())": r"nn\.Sequential: argument 0 is the class Dense; call it, nn\.Dense\(\.\.\.\)",
    "Sequential(Dense(), jnp.tanh)": r"nn\.Sequential: argument 1 must be a layer; got .*tanh.*nn\.Elementwise",
    "Sequential([Dense(), Relu()])": r"nn\.Sequential takes layers one by one, not a list of them",
    "Residual(Relu)": r"nn\.Residual: argument 0 is the class Relu",
    "Parallel(Dense(), 3)": r"nn\.Parallel: argument 1 must be a layer; got 3",
    "Parallel(Dense(), combine='max')": r"combine must be 'sum', 'product' or 'concatenate'; got 'max'",
    # what does not follow from the layer before
    "on(x, Relu(), Dense())": rf"nn\.Relu {GAUSSIAN}.*here it acts on the inputs",
    "on(x, Dense(), Relu(), Erf())": rf"nn\.Erf {GAUSSIAN}.*here it acts on the output of nn\.Relu",
    "on(images, Conv(3), Flatten(), Relu())": rf"nn\.Relu {GAUSSIAN}.*here it acts on the output of nn\.Flatten",
    "on(x, Dense(), Dropout(0.5), Relu())": rf"nn\.Relu {GAUSSIAN}.*the output of nn\.Dropout",
    "on(x, Dense(), Parallel(Relu(), Erf(), combine='concatenate'), Sin())": rf"nn\.Sin {GAUSSIAN}.*of nn\.Parallel",
    "on(x, Parallel(Relu(), Dense()), Dense())": rf"nn\.Relu {GAUSSIAN}.*here it acts on the inputs",
    "on(x, Dense(), Relu(), LayerNorm())": rf"nn\.LayerNorm {GAUSSIAN}; here it acts on the output of nn\.Relu",
    "on(x, LayerNorm(), Dense())": rf"nn\.LayerNorm {GAUSSIAN}; here it acts on the inputs",
    "on(x, Dropout(0.5), Dense(), Relu())": r"nn\.Dropout must come after the first nn\.Dense or nn\.Conv",
    "on(images, Flatten(), Dropout(0.5), Dense(), Relu())": r"nn\.Dropout must come after the first nn\.Dense",
    # sums of correlated branches
    "on(x, Dense(), Parallel(Relu(), Erf()))": r"uncorrelated.*these do not: nn\.Relu\(\), nn\.Erf\(\)",
    "on(x, Dense(), Parallel(Identity(), Identity()))": r"uncorrelated.*these do not: nn\.Identity\(\), nn\.Identity",
    "on(x, Dense(), Residual(LayerNorm()))": r"uncorrelated.*nn\.LayerNorm\(\)",
    "on(x, Dense(), Residual(Identity()), Relu())": r"uncorrelated.*nn\.Identity\(\)",
    "on(x, Dense(), Residual(Residual(Relu(), Dense())))": r"uncorrelated.*nn\.Residual",
    "on(images, Conv(3), Parallel(Identity(), AvgPool(1)), Flatten())": r"uncorrelated.*nn\.AvgPool",
    "on(x, Residual(Dense()))": r"agree in positions and features.*\(\) x 3, \(\) x width",
    "Residual(Dense()).at_width(3).init(key, (3,))": r"agree in positions and features",
    "on(images, Parallel(Conv(3), Conv(3, padding='VALID')), Flatten())": r"agree in positions.*\(4, 4\).*\(2, 2\)",
    # one variance per feature
    "on(x, Dense(weight_var=[1.0, 2.0]))": r"weight_var has 2 entries, but the inputs have 3 features",
    "on(x, Dense(), Relu(), Dense(weight_var=[1.0, 2.0]))": r"must be the first layer.*receives the output of nn\.Relu",
    "on(x, Parallel(Dense(weight_var=[1.0, 2.0, 3.0]), Dense()))": r"be the first layer and receive the inputs alone",
    "on(x, Identity(), Dense(weight_var=[1.0, 2.0, 3.0]))": r"be the first layer and receive the inputs alone",
    "on(images, Flatten(), Dense(weight_var=np.ones(16)))": r"be the first layer.*receives the output of nn\.Flatten",
    # positions
    "on(images, Conv(3), Relu())": r"end in one vector per input, but it ends in positions \(4, 4\); add nn\.Flatten",
    "on(images, Conv(7, padding='VALID'), Flatten())": r"nn\.Conv has a window of 7, larger than .* \(4, 4\)",
    "on(images, Conv(3), AvgPool(9), Flatten())": r"nn\.AvgPool has a window of 9, larger than the positions \(4, 4\)",
    "on(images[..., 0], Conv((3, 3)), Flatten())": r"window=\(3, 3\), but it receives sequences.*channel axis",
    "on(x, Dense(), GlobalAvgPool())": r"nn\.GlobalAvgPool expects sequences or images, but it receives vectors",
    "on(x, SelfAttention())": r"nn\.SelfAttention expects sequences or images, but it receives vectors",
    # finite networks, builders, tables
    "Dense().at_width(0)": "width must be a positive integer; got 0",
    "Dense().at_width(64.0)": r"width must be a positive integer; got 64\.0",
    "Dense().at_width(8, outputs=True)": "outputs must be a positive integer; got True",
    "Dense().at_width(8, parametrisation='mup')": "parametrisation must be 'ntk' or 'standard'; got 'mup'",
    "Dense().at_width(8).init(key, 3)": r"input_shape must be the shape of one input.*x\.shape\[1:\]; got 3",
    "Dense().at_width(8).init(key, (5, 3))": r"input_shape of shape \(n, 5, 3\) .*nn\.Dense expects vectors",
    "summary(Dense(), ())": r"input_shape must be the shape of one input.*got \(\)",
    "mlp(depth=0)": "depth must be a positive integer; got 0",
    "mlp(activation='swish')": r"activation must be one of abs, .*tanh; got 'swish'",
    "mlp(activation=Relu)": r"activation must be a name, a layer or a function; got <class",
    "mlp(weight_var='a')": rf"weight_var {POSITIVE}.*got 'a'",
    "resnet(blocks=-1)": "blocks must be a positive integer; got -1",
    "Dense(512)": r"nn\.Dense takes variances by keyword.*got 512 without a name.*net\.at_width\(512\)",
    "Conv(64, 3)": r"nn\.Conv takes variances by keyword.*got 3 without a name",
    "cnn(depth=1.5)": r"depth must be a positive integer; got 1\.5",
    # calls
    "mlp().kernel(x, get='nnpg')": "get must be one of 'nngp', 'ntk', 'both'; got 'nnpg'",
    "mlp().kernel(x, get=['nngp'])": r"get must be one of .* got \['nngp'\]",
    "mlp().kernel(x, max_memory='1GB')": "max_memory must be a positive number of bytes.*got '1GB'",
    "mlp().kernel(x, max_memory=-1)": "max_memory must be a positive number of bytes.*got -1",
    "mlp().kernel(x, progress='yes')": r"progress must be True, False or a function of \(done, total\); got 'yes'",
    "mlp().pull_back(np.ones((2, 2)), x)": r"cotangent must be .*KernelValues\(nngp=.*got ndarray",
    "mlp().cost((0, 3))": r"x1 must be inputs or their shape, .*got \(0, 3\)",
    "mlp().cost((10, 3), (10, 4))": r"agree in all axes but the first; got shapes \(10, 3\) and \(10, 4\)",
    "mlp().cost((10, 4, 4, 1))": r"x1 of shape \(n, 4, 4, 1\) does not fit",
}

ACCEPTED = [
    "Dense().at_width(np.int64(4))",
    "Dense(weight_var=np.array([1, 2, 3])).pull_back(values, x).weight_var + np.zeros(3)",
    "on(x, Dense(), LeakyRelu(jnp.asarray(0.1)))",
    "on(x, Dense(), Dropout(0), Relu())",
    "on(x, Dense(), Parallel(Sequential(Dense(), Residual(Relu(), Dense())), Relu()))",
    "on(x, Parallel(Dense(), Sequential(Dense(), Residual(Relu(), Dense()))), Relu())",
    "on(images, Conv(5), Conv(5, padding='CIRCULAR'), Flatten())",
]

RUN = """
def answer(expression):
    try:
        eval(expression)
    except BaseException as error:
        return [type(error).__name__, str(error)]
    return ["accepted", ""]

json.dump({expression: answer(expression) for expression in json.load(sys.stdin)}, sys.stdout)
"""


@pytest.fixture(scope="module")
def answers():
    process = subprocess.run(
        [sys.executable, "-c", SET_UP + RUN],
        input=json.dumps([*CASES, *ACCEPTED]),
        capture_output=True,
        text=True,
        check=False,
    )
    assert process.returncode == 0, process.stderr
    return json.loads(process.stdout)


@pytest.mark.parametrize("expression", CASES)
def test_message(expression, answers):
    kind, message = answers[expression]
    assert kind == "ValueError", (kind, message)
    assert re.search(CASES[expression], message), message


@pytest.mark.parametrize("expression", ACCEPTED)
def test_accepted(expression, answers):
    assert answers[expression] == ["accepted", ""]
