"""Epochs: incremental maintenance of views under changed assertions."""
