"""Programs for common architectures."""
