"""The limit of a program: one induction, with expectations by closed forms, by series or by simulation."""
