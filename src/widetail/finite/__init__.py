"""Finite networks with random readout scales: sampling, training, comparison with the limit, ensembles."""

from widetail.finite._compare import Comparison as Comparison
from widetail.finite._compare import compare as compare
from widetail.finite._covariances import body_covariances as body_covariances
from widetail.finite._descent import Loss as Loss
from widetail.finite._draws import NetworkDraws as NetworkDraws
from widetail.finite._draws import draw_scales as draw_scales
from widetail.finite._draws import split_key as split_key
from widetail.finite._ensemble import EnsembleFit as EnsembleFit
from widetail.finite._ensemble import fit_ensemble as fit_ensemble
from widetail.finite._ensemble import member_outputs as member_outputs
from widetail.finite._network import ScaledNetwork as ScaledNetwork
from widetail.finite._sample import sample as sample
from widetail.finite._sample import train_readout as train_readout
from widetail.finite._train import TrainedDraws as TrainedDraws
from widetail.finite._train import stable_rates as stable_rates
from widetail.finite._train import train as train
from widetail.numerics import DivergenceError as DivergenceError
