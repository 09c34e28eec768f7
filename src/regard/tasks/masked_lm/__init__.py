"""BERT pre-training."""
