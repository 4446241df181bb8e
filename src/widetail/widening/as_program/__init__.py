"""Models read as tensor programs: every entry of every array is a vector across the width, a scalar or a number."""
