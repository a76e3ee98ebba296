"""What the API can do with objects, one verb to a module. Each takes a backend and a call."""
