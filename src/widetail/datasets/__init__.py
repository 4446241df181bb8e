"""Data sets: regression tables, labelled images, and shifts of both.

`load_regression` and `load_images` take a name. The defaults, "diabetes" and "digits", come with
scikit-learn. All others are looked for in the folder that the environment variable WIDETAIL_DATA
names, then in the user's cache, then downloaded from their public source; every copy is checked.
"""

from widetail.datasets import shifts as shifts
from widetail.datasets._errors import ChecksumError as ChecksumError
from widetail.datasets._errors import DataUnavailableError as DataUnavailableError
from widetail.datasets._functions import FUNCTIONS as FUNCTIONS
from widetail.datasets._functions import BoxFunction as BoxFunction
from widetail.datasets._images import IMAGE_NAMES as IMAGE_NAMES
from widetail.datasets._images import load_images as load_images
from widetail.datasets._locate import cache_folder as cache_folder
from widetail.datasets._regression import REGRESSION_NAMES as REGRESSION_NAMES
from widetail.datasets._regression import UCI_NAMES as UCI_NAMES
from widetail.datasets._regression import load_regression as load_regression
from widetail.datasets._results import Images as Images
from widetail.datasets._results import Regression as Regression
from widetail.datasets._results import Split as Split
from widetail.datasets._splits import standard_splits as standard_splits
from widetail.datasets._standardise import Standardiser as Standardiser
