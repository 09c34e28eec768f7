"""What each command takes and says of itself; what it does is imported when it is called."""
