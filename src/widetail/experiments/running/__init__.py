"""Doing the tasks of an experiment, keeping what they find, and having the report written."""
