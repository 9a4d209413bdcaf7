"""Pretraining objectives, one file each: layouts, losses and helper networks. ``registry`` names them."""
