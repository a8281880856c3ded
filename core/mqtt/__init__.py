"""One small wrapper around aiomqtt: manual ack, a new client per connection, publish raced against disconnect."""
