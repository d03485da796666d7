"""What people see: the summary in the terminal, and one trial's timeline."""
