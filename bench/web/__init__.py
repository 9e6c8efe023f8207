"""What people see of 10,000 GPUs, and how soon."""
