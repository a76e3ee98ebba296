"""Scripts that make data files and pictures anew."""
