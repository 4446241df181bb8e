"""What a sparse model predicts: classes, counts, numbers, and how sure it is to know the class at all."""

from widetail.sparse.predictions._observed import Integrated as Integrated
from widetail.sparse.predictions._remote import Known as Known
from widetail.sparse.predictions._remote import directions as directions
