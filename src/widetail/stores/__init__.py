"""Symmetric matrices on disk, tile by tile: what is finished survives a kill, damage is noticed, one run at a time.

Apart from the kernels that they are of, because nothing here imports JAX: workers that only factor matrices, and the
command line before it has anything to compute, do without its memory.
"""

from widetail.stores._errors import StoreBusyError as StoreBusyError
from widetail.stores._errors import StoreDamagedError as StoreDamagedError
from widetail.stores._errors import StoreMismatchError as StoreMismatchError
from widetail.stores._locations import Location as Location
from widetail.stores._lock import RunLock as RunLock
from widetail.stores._matrices import SUFFIXES as SUFFIXES
from widetail.stores._matrices import StoredMatrix as StoredMatrix
from widetail.stores._matrices import ZarrMatrix as ZarrMatrix
from widetail.stores._tiles import FACTS as FACTS
from widetail.stores._tiles import TILE as TILE
from widetail.stores._tiles import Pair as Pair
from widetail.stores._tiles import Tiles as Tiles
from widetail.stores._tiles import TileStore as TileStore
from widetail.stores._tiles import checksum as checksum
from widetail.stores._tiles import entry_name as entry_name
from widetail.stores._tiles import read_entries as read_entries
from widetail.stores._tiles import read_facts as read_facts
