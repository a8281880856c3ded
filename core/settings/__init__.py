"""Settings: environment and TOML read together, every mistake reported at once."""
