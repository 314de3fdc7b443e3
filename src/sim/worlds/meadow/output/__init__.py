"""Telemetry and events of the meadow. No step reads them."""
