"""Epochs: from changed assertions to changed views, by differences."""
