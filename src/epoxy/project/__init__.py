"""A project folder on disk: its settings, its rows, its functions and its log."""
