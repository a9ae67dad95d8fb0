"""What every operator promises, checked for each name in the registry."""
