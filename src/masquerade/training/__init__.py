"""Training: recipes, the loop, and checkpoints that survive anything."""
