"""The paper's experiments, and ours: `reproduce(name)` runs one and writes a report.

Every experiment is a configuration, a list of tasks and a report. Its results are appended to a file as they come; a
run that was interrupted goes on where it stopped. What a new one is made of is here and in `experiments.report`.
"""

from widetail.experiments.running._registry import MODULES as _MODULES
from widetail.experiments.running._registry import Experiment as Experiment
from widetail.experiments.running._registry import Findings as Findings
from widetail.experiments.running._registry import Results as Results
from widetail.experiments.running._reproduce import Reproduced as Reproduced
from widetail.experiments.running._reproduce import reproduce as reproduce
from widetail.experiments.running._reproduce import reproduced as reproduced
from widetail.experiments.running._runner import Outcome as Outcome
from widetail.experiments.running._runner import Task as Task
from widetail.experiments.running._runner import rows_of as rows_of
from widetail.experiments.running._runner import run_tasks as run_tasks
from widetail.experiments.running._store import ConfigChangedError as ConfigChangedError
from widetail.experiments.running._store import Store as Store

NAMES: tuple[str, ...] = tuple(_MODULES)
