"""Laws of finite networks against their limits: theorems 3.1 to 3.3."""

from widetail.experiments.theory._config import X_NEW as X_NEW
from widetail.experiments.theory._config import TheoryConfig as TheoryConfig
from widetail.experiments.theory._config import X as X
from widetail.experiments.theory._config import Y as Y
from widetail.experiments.theory._convergence import fit_rate as fit_rate
from widetail.experiments.theory._experiment import EXPERIMENT as EXPERIMENT
from widetail.experiments.theory._laws import check_family as check_family
from widetail.experiments.theory._laws import families as families
from widetail.experiments.theory._laws import measure_widths as measure_widths
from widetail.experiments.theory._laws import train_all_layers as train_all_layers
from widetail.experiments.theory._laws import trained_families as trained_families
from widetail.experiments.theory._tasks import result_of as result_of
