"""What machines can be bought, and how: everything that differs from cloud to cloud."""
