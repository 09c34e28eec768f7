"""One readable file a model."""
