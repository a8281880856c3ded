"""Live states, results and events over WebSockets."""
