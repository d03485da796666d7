"""A trial once more, and the smallest plan that makes it fail."""
