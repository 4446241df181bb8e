"""Regression on the UCI tables: five models on identical splits."""

from widetail.experiments.uci._experiment import EXPERIMENT as EXPERIMENT
from widetail.experiments.uci._experiment import UciConfig as UciConfig
from widetail.experiments.uci._models import MODELS as MODELS
from widetail.experiments.uci._models import EnsembleSettings as EnsembleSettings
from widetail.experiments.uci._models import gaussian_processes as gaussian_processes
