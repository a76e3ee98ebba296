"""The rules that objects of built-in kinds must keep, in the words of the Kubernetes API."""
