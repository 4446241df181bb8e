"""Layers with and without random weights, and networks made of them."""
