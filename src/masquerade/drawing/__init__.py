"""Masks, networks, traces and curves as terminal text, SVG and PNG."""
