"""Where heavy tails pay: priors of the scale, with hyperparameters at their optimum or integrated out, by rows."""

from widetail.experiments.few._experiment import EXPERIMENT as EXPERIMENT
from widetail.experiments.few._experiment import NOISE as NOISE
from widetail.experiments.few._experiment import FewConfig as FewConfig
from widetail.experiments.few._experiment import tasks as tasks
