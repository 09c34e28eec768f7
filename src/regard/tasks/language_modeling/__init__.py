"""Language modeling: GPT and n-gram models."""
