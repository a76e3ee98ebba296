"""The rules that objects of built-in kinds must keep, with the field paths and wording of the Kubernetes API."""
