"""
What is known of the fields of built-in kinds: names, types, merge keys, list keys. Facts only, shipped as
one file.
"""
