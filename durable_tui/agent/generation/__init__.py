"""`pi.generation`: one answer of a model, from its prompt to what follows from it (spec 9)."""
