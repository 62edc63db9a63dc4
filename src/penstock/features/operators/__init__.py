"""The operators of features, one family a file."""
