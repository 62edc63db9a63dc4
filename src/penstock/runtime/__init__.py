"""Policies that decide which topic is served and when. Pure: time is an argument."""
