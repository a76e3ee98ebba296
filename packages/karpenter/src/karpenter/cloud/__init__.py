"""Cloud providers: everything that differs from cloud to cloud."""
