"""A run folder behind HTTP: a queue before each model, the routes, who is let in, and what is counted."""
