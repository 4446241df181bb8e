"""Outliers, and noise that depends on the input: kinds of noise against each other and against other libraries."""

from widetail.experiments.noise._experiment import EXPERIMENT as EXPERIMENT
from widetail.experiments.noise._experiment import NoiseConfig as NoiseConfig
from widetail.experiments.noise._experiment import tasks as tasks
