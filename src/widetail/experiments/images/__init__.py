"""What the experiments on images share: data and their shifts, and the report on two kinds of models."""
