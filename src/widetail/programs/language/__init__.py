"""The language of programs: symbolic values, what may be done with them, and messages that name the line."""
