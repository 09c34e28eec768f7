"""How models learn: loss, schedule, loop."""
