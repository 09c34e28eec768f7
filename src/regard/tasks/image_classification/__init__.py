"""Image classification with a Vision Transformer."""
