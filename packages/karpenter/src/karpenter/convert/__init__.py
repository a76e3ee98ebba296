"""
Conversion of manifests from before version 1: documents in, documents and findings out.

Pure: no files, no clock, no cloud. :mod:`.documents` is the entry; :mod:`.rewrite` writes a converted
document over the text of the old one, so that comments and formatting stay.
"""
