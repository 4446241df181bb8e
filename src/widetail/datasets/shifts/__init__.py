"""Shifts."""
