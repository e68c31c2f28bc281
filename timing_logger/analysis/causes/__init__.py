"""What host counters did while ranks were slow, held against chance."""
