"""
What must always hold, one noun per file. :mod:`.book` says what a rule is; :mod:`.all` lists them.

A rule trusts nobody: it judges by the API server's own writes and by what really exists in the cloud.
"""
