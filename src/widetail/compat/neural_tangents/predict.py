"""`neural_tangents.predict`: training of infinite and linearised networks."""

from widetail.compat.neural_tangents._predict import Gaussian as Gaussian
from widetail.compat.neural_tangents._predict import ODEState as ODEState
from widetail.compat.neural_tangents._predict import gp_inference as gp_inference
from widetail.compat.neural_tangents._predict import gradient_descent as gradient_descent
from widetail.compat.neural_tangents._predict import gradient_descent_mse as gradient_descent_mse
from widetail.compat.neural_tangents._predict import gradient_descent_mse_ensemble as gradient_descent_mse_ensemble
from widetail.compat.neural_tangents._predict import max_learning_rate as max_learning_rate
