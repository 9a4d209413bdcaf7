"""Writing, and how well a language model predicts what others wrote."""
