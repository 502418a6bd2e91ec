"""Kernels of the window structures. Most are templates: one copy is compiled per operator."""
