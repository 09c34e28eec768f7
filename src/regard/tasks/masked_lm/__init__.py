"""Masked lm."""
