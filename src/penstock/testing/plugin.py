"""Fixtures for users of Penstock."""
