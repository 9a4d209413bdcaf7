"""Entities and facts as a memory between the layers: KnowBERT, Entities as Experts, Facts as Experts."""
