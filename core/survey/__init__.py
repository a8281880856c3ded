"""Walking a garden and writing down where the mower's signal is heard: samples, places, summary, picture."""
