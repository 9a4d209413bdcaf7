"""Labels for texts: classes and scores of whole texts and pairs of them, entities inside of texts."""
