"""Tensor programs: the infinite-width limit of any architecture, weights shared at will."""

from widetail.programs._program import Program as Program
from widetail.programs._program import pack as pack
from widetail.programs._program import program as program
from widetail.programs._source import ProgramError as ProgramError
from widetail.programs.library._recurrent import rnn as rnn
