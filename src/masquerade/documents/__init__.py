"""Files as people keep them, as texts with places."""
