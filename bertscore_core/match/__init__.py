"""Embeddings and their matching: what the scoring kernel does with a batch."""
