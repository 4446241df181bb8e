"""Shifts of data sets: corrupted images, shifted labels, spoilt targets. All are seeded."""

from widetail.datasets.shifts._cifar10_c import CIFAR10_CORRUPTIONS as CIFAR10_CORRUPTIONS
from widetail.datasets.shifts._cifar10_c import corrupt_cifar10 as corrupt_cifar10
from widetail.datasets.shifts._labels import rows_with_imbalance as rows_with_imbalance
from widetail.datasets.shifts._labels import rows_without as rows_without
from widetail.datasets.shifts._labels import with_label_noise as with_label_noise
from widetail.datasets.shifts._mnist_c import MNIST_CORRUPTIONS as MNIST_CORRUPTIONS
from widetail.datasets.shifts._mnist_c import corrupt_mnist as corrupt_mnist
from widetail.datasets.shifts._targets import with_heavy_tailed_noise as with_heavy_tailed_noise
from widetail.datasets.shifts._targets import with_outliers as with_outliers
