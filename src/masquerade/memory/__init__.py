"""Memory: working memory, retrieval, entities and facts."""
