"""`python -m widetail` is the command `widetail`."""

import sys

from widetail.cli import main

sys.exit(main())
