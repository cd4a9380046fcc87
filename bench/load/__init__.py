"""`make load`: many turns of many users through several worker processes on one machine, with a model that takes no time."""
