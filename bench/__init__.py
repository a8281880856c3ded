"""Benchmarks: figures of this repository as ratios against a baseline measured in the same run."""
