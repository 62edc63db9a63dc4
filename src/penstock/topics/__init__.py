"""The state of topics, and the rules that change it. Pure; time is an argument."""
