"""
What is wrong with an object beyond its shape: rules that no schema can state, and all of them together.

Every function takes a value and returns problems, none when there are none. Which labels are
restricted depends on the cloud provider, so label rules are an argument. :mod:`.objects` puts the
schema, its CEL rules and these checks together for one object, :mod:`.documents` for a manifest.
"""
