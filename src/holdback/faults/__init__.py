"""Faults as values, and their injection."""
