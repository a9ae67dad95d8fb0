"""The join algorithms of the papers, which a hint can ask for."""
