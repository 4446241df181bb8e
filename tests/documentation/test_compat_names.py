"""The page of translations lists every name of the compat module, and that has every name of neural-tangents 0.6.5."""

import runpy
from pathlib import Path

ROOT = Path(__file__).parents[2]
MADE = runpy.run_path(str(ROOT / "docs" / "building" / "neural_tangents_names.py"))
# the public names of neural-tangents 0.6.5 but for nt.experimental
THEIRS = {
    "nt": "Kernel NtkImplementation batch empirical_kernel_fn empirical_nngp_fn empirical_ntk_fn empirical_ntk_vp_fn "
    "linearize monte_carlo_kernel_fn taylor_expand",
    "nt.predict": "Gaussian ODEState gp_inference gradient_descent gradient_descent_mse gradient_descent_mse_ensemble "
    "max_learning_rate",
    "nt.stax": "ABRelu Abs Aggregate AggregateImplementation AttentionMechanism AvgPool Bool Conv ConvLocal "
    "ConvTranspose Cos Dense Diagonal DotGeneral Dropout Elementwise ElementwiseNumerical Erf Exp "
    "ExpNormalized FanInConcat FanInProd FanInSum FanOut Flatten Gabor Gaussian Gelu GlobalAvgPool "
    "GlobalSelfAttention GlobalSumPool Hermite Identity ImageResize Index LayerNorm LeakyRelu MaskedArray "
    "Monomial Padding Polynomial PositionalEmbedding Rbf RectifiedMonomial Relu Sigmoid_like Sign Sin "
    "Slice SumPool layer parallel repeat requires serial supports_masking unmask_fn",
}


def test_the_tables_are_those_of_the_saved_runs_and_of_the_module():
    assert MADE["PAGE"].read_text().endswith(f"{MADE['runs']()}\n{MADE['table']()}")


def test_no_name_is_missing():
    names = {name for name, _ in MADE["public_names"]()}
    assert {f"{prefix}.{name}" for prefix, words in THEIRS.items() for name in words.split()} <= names
