"""Speed, memory and agreement against other libraries.

`python -m benchmarks` runs all of them, `python -m benchmarks kernels` one, `python -m benchmarks --list` names them.
A new benchmark is one more module here with a function under `@benchmark`; list the module in `__main__.py`.
"""
