"""Collections of documents: passages, sentence vectors, search, and answers from what was found."""
