"""What the console's pages are put together from."""
