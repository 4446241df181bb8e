"""The commands, one file each; of the demo also what it compares and its pictures."""
