"""Policies that decide who is served and when. Pure: time is passed in."""
