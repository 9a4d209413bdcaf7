"""Checkpoints: published folders, hub ids and TensorFlow files in and out."""
