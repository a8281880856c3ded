"""Where telemetry rests: the TelemetryStore port, its SQLite store and migrations."""
