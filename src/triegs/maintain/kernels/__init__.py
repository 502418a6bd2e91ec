"""Kernels of an epoch: the table of a program, and the steps and rules that it runs."""
