"""The wire between box and relay, sans-I/O: topics, messages, batch codec, signatures, journal state machines."""
