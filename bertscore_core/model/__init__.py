"""Encoders: which files a model is, how it is loaded, and what runs its layers."""
