"""Encoder."""
