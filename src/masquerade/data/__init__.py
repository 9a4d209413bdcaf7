"""Corpora: text in, packed rows of examples out."""
