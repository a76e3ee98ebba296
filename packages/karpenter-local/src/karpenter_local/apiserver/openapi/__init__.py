"""
The server's description of its kinds in OpenAPI, from which kubectl explains, validates, applies and diffs.

Built from the same facts and CRD schemas that the server itself goes by. The descriptions are our own, and
few.
"""
