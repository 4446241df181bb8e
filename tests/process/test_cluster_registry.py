import subprocess
import sys

CODE = """
import numpy as np
from widetail.kernels import RBF
from widetail.process import ScaleMixture
x = np.zeros((2, 1))
{more}
try:
    ScaleMixture(RBF()).posterior(x, x[:, 0], client="no client")
except ValueError as error:
    print(error)
"""


def message(more):
    return subprocess.run(
        [sys.executable, "-c", CODE.format(more=more)], capture_output=True, text=True, check=True
    ).stdout


def test_a_client_without_the_room_of_clusters_is_told_what_to_import():
    assert "import widetail.distributed.posterior" in message("")


def test_the_room_of_clusters_enters_itself():
    assert "dask.distributed.Client" in message("import widetail.distributed.posterior")
    assert "dask.distributed.Client" in message("import widetail as wt; wt.ScaleMixture")
