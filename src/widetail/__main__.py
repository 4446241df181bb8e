"""`python -m widetail` is the command `widetail`."""

from widetail.cli import run_and_exit

run_and_exit()
