"""A session's verbs for a program that reads tools: reading is free, writing is asked for."""
