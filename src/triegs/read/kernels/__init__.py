"""Kernels that read versions: answers, their positions, and the changes between two."""
