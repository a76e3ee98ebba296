"""The running operator: settings, controllers, leader election, HTTP endpoints."""
