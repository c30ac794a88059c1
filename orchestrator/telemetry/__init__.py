"""Metrics and traces for Prometheus and OpenTelemetry, derived from committed records."""
