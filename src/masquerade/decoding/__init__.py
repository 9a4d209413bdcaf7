"""Scores to text."""
