"""Diffusion."""
