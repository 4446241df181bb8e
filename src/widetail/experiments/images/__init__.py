"""What the experiments on images share: data and their shifts, and the report on two kinds of models."""

from widetail.experiments.images._shifts import shifted_tests as shifted_tests
from widetail.experiments.images._shifts import training_images as training_images
