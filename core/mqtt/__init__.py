"""One small wrapper around paho-mqtt: a new client per connection, acks when handled, a publish that notices the end."""
