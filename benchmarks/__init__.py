"""Benchmarks of Penstock. They run from the root of the repository and are not installed.

`python -m benchmarks` lists the parts, and docs/operations/bench.md describes them.
"""
