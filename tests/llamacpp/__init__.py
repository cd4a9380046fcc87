"""Optional: a small real model, unreliable on purpose. ``make llamacpp`` installs it and runs these tests."""
