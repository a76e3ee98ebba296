"""Dashboards for Grafana and alert rules for Prometheus, made of the metrics of the operator."""
