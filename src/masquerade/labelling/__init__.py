"""Labels for texts: classes and numbers of texts and of pairs, entities inside texts."""
