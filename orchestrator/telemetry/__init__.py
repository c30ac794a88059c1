"""Numbers and spans for the tools that watch programs: Prometheus and OpenTelemetry. Derived from what is committed."""
