"""
Runtime validation: what no schema can state, and all checks of one object together.

Every function takes a value and returns problems. Which labels are restricted depends on the cloud
provider, so label rules are an argument. :mod:`.objects` combines the schema, its CEL rules and these
checks for one object, :mod:`.documents` for a manifest.
"""
