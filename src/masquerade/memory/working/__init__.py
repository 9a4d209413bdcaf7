"""Working memory: the parts of a long text that a window has room for (CogLTX), and graphs of what several texts say
about a question (CogQA)."""
