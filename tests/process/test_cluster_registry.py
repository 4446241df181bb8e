import subprocess
import sys

CODE = """
import numpy as np
from widetail.kernels import RBF
from widetail.process import ScaleMixture
x = np.zeros((2, 1))
def refused():
    try:
        ScaleMixture(RBF()).posterior(x, x[:, 0], client="no client")
    except ValueError as error:
        print(error)
"""


def messages(more):
    """What a process of its own, which has imported nothing else, prints."""
    code = [sys.executable, "-c", CODE + more]
    return subprocess.run(code, capture_output=True, text=True, check=True).stdout.splitlines()


def test_a_client_without_the_room_of_clusters_is_told_what_to_import_and_then_taken():
    before, after = messages("refused()\nimport widetail.distributed.posterior\nrefused()")
    assert "import widetail.distributed.posterior" in before
    assert "dask.distributed.Client" in after


def test_the_names_of_the_package_enter_the_room_of_clusters():
    (message,) = messages("import widetail as wt\nwt.ScaleMixture\nrefused()")
    assert "dask.distributed.Client" in message
