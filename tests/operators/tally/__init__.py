"""A second example of a new operator, with a step of its own in the cycle and a kind of result of its own: it counts readings."""
