"""What ends in a file: files that are whole or not there, and fingerprints of what they are of.

Checkpoints are in `widetail.files.checkpoints`, apart, because they need JAX: the command line starts without it.
"""

from widetail.files._fingerprint import fingerprint as fingerprint
from widetail.files._write import whole_file as whole_file
from widetail.files._write import write_whole as write_whole
