"""Files that are written completely or not at all, their checksums, and the objects that they can hold.

Checkpoints are in `widetail.files.checkpoints`, apart, because they need JAX: the command line starts without it.
"""

from widetail.files._fingerprint import fingerprint as fingerprint
from widetail.files._registry import fields_not_saved as fields_not_saved
from widetail.files._registry import fits as fits
from widetail.files._registry import from_config as from_config
from widetail.files._registry import registered as registered
from widetail.files._registry import savable as savable
from widetail.files._registry import to_config as to_config
from widetail.files._sealed import damage_named as damage_named
from widetail.files._sealed import parse_json as parse_json
from widetail.files._sealed import read_sealed as read_sealed
from widetail.files._sealed import write_sealed as write_sealed
from widetail.files._write import whole_file as whole_file
from widetail.files._write import write_whole as write_whole
