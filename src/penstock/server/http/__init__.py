"""What all routes share: access control, limits of requests, and reading and writing of bodies."""
