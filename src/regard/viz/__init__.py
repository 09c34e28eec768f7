"""Attention maps as HTML pages, figures (PNG, SVG) and text heat maps; charts of training and evaluation."""
