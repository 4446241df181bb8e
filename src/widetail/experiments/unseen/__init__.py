"""Classes that were never seen: what doubt gives, what it costs, and where the paper's gain comes from."""

from widetail.experiments.unseen._experiment import EXPERIMENT as EXPERIMENT
from widetail.experiments.unseen._experiment import UnseenConfig as UnseenConfig
from widetail.experiments.unseen._experiment import tasks as tasks
from widetail.experiments.unseen._published import train_published as train_published
from widetail.experiments.unseen._report import CODED as CODED
from widetail.experiments.unseen._report import CODED_HELD as CODED_HELD
from widetail.experiments.unseen._report import CODED_PLAIN as CODED_PLAIN
from widetail.experiments.unseen._report import DOUBLED as DOUBLED
from widetail.experiments.unseen._report import OWN as OWN
from widetail.experiments.unseen._report import SHARED as SHARED
from widetail.experiments.unseen._tails import drawn as drawn
