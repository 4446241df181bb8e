"""Seeds of shifts."""

import numpy as np

# An integer, or a generator that is advanced.
Seed = int | np.random.Generator
