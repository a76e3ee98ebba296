"""
The tables that ``kubectl get`` prints, made on the server: which columns a kind has, and what is in them.

One module per family of kinds; :mod:`.view` puts them on the wire, :mod:`.custom` reads the columns of a CRD.
"""
