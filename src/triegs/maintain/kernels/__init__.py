"""Kernels of an epoch: the program table, and the steps and rules that it runs."""
