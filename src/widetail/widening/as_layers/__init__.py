"""Models read as layers of `nn`, from the input up: the fast way, where a model is a chain of layers."""
