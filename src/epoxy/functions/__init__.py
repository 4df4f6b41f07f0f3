"""Labeling functions: written as code or as data, applied, kept in a file, and told apart."""
