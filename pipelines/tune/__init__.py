"""Which model, layer and weighting agrees with people."""
