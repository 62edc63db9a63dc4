"""Files and frames. Nothing here knows what a topic is."""
