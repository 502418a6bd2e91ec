"""Kernels of exact sums."""
