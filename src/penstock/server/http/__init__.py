"""What all routes share: who asks, how much they may send, and how bodies are read and written."""
