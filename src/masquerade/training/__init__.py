"""Training: recipes, the loop, and checkpoints from which a run resumes exactly."""
