"""Fixtures and helpers shared by the tests."""
