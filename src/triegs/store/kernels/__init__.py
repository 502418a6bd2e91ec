"""Kernels over the packed tries: nodes, sets, relations, versions and their reclamation."""
