"""What the operator tells about itself: logs for people and machines, and metrics for Prometheus."""
