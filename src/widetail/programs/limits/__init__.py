"""The limit of a program: one induction, with expectations by closed forms, by series or by simulation."""

from widetail.programs.limits._simulation import simulated as simulated
