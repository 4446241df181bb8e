"""What runs inside the processes: one module per library. They import nothing that the other environment lacks."""
