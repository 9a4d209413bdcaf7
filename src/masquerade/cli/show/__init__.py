"""What the commands read and print; loaded when a command runs, since it needs torch."""
