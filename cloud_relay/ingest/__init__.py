"""What the relay does with what boxes send: journal into the store, live states to the people who look."""
