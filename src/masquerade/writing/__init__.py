"""Text generation, and measures of how well a language model predicts a text."""
