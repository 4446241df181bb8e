"""How the posterior of a sparse model is found: natural gradients, Adam, choices by held-out rows."""
