"""Beava, the feature server whose clients speak HTTP and framed TCP."""
