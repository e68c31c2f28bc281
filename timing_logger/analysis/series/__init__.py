"""Statistics of series over the steps of a run: levels, noise, chance. They know of no verdict."""
