"""Tokenizers: text to token ids, exactly as bert-score 0.3.13 makes them."""
