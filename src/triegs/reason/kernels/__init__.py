"""Kernels over the facts of one closure."""
