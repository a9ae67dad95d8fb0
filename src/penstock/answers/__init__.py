"""Answers for readers: asked for by name, at a cycle or a time, and pushed as they change."""
