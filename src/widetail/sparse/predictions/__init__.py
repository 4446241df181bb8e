"""What a sparse model predicts: classes, counts, numbers, and how sure it is to know the class at all."""
