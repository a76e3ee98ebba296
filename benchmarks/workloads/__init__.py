"""Problems to measure the solver with: made from seeds, the same on every machine."""
