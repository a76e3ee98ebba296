"""The objects that make up an installation, one sort a module."""
