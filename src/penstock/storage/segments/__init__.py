"""Sealed stretches of one topic's records: immutable files, mapped for reading."""
