"""Every sentence on a result: verdict, evidence, causes, comparison, and figures with their units."""
