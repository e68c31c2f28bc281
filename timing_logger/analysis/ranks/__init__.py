"""What each rank spent its time on."""
