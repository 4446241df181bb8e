"""Other libraries' names on top of this one, for scripts that were written for them."""
