"""OTLP over HTTP: what programs that are instrumented with OpenTelemetry alone send (docs/otlp.md)."""
