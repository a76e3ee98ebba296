"""Clocks, queues, rate limits, quantities, durations, schedules. Nothing here knows Kubernetes or a cloud."""
