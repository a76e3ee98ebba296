"""Tests of core.provisioning."""
