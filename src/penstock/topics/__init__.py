"""The domain: what a topic is, what goes and what stays. Pure; time comes in as an argument."""
