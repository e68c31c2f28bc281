"""What a process knows of its job and machine, and the files in folders that others may write to."""
