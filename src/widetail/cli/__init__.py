"""The command `widetail`: tables in, calibrated predictions out. `pip install widetail[cli]` brings what it needs."""

from widetail.cli._main import main as main
from widetail.cli._main import run_and_exit as run_and_exit
