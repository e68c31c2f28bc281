"""What slow ranks and transfers cost: by playing the run again, or step by step."""
