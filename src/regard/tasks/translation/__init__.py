"""Translation with an encoder-decoder."""
