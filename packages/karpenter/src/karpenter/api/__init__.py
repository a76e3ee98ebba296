"""
The words of the Kubernetes API: frozen structs with the fields we read and no more.

Each module holds the kinds of one subject; :mod:`.kinds` lists them all. Structs are plain
values that know how to be decoded and encoded. They make no decisions, and they never meet
a client, a clock or a cloud.
"""
