"""Recipes: frozen dataclasses read from TOML, and the sections that several tasks share."""
