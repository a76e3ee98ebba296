"""Dynamic resource allocation: devices, claims, and which devices a pod gets on which node."""
