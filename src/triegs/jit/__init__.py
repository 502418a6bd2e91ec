"""Compilation and caching of kernels, and the words they operate on."""
