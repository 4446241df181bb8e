"""The numbers that the paper prints, as a table of mean and ± each.

From the LaTeX source of "Scale Mixtures of Neural Network Gaussian Processes" (ICLR 2022): the tables of sections 4.2,
4.4 and 4.5, and those of the appendices on classification with Gaussian likelihood and on additional experiments. The
reports say, next to our own numbers, which of these can be compared with them.
"""

import math
from collections.abc import Mapping
from typing import NamedTuple


class Printed(NamedTuple):
    """A number of the paper and the ± behind it."""

    value: float
    error: float


NOT_PRINTED = Printed(math.nan, math.nan)

PaperTable = Mapping[str, Mapping[str, Printed]]  # by row, then by column


def _parse(text: str) -> PaperTable:
    head, *lines = ([cell.strip() for cell in line.split("|")] for line in text.strip().splitlines())
    return {
        line[0]: {name: Printed(*map(float, cell.split())) for name, cell in zip(head[1:], line[1:], strict=True)}
        for line in lines
    }


def printed(table: PaperTable, row: str, column: str) -> Printed:
    """One entry; NaN where the paper has none."""
    return table.get(row, {}).get(column, NOT_PRINTED)


# NLL of regression (section 4.2). All columns but the last were taken from Adlam et al. (2020).
UCI_NLL = _parse(
    """
    set      |     PBP-MV |    Dropout |  Ensembles |         RBF |        NNGP |       Ours
    boston   |  2.54 0.08 |  2.40 0.04 |  2.41 0.25 |   2.63 0.09 |   2.65 0.13 |  2.72 0.05
    concrete |  3.04 0.03 |  2.93 0.02 |  3.06 0.18 |   3.52 0.11 |   3.19 0.05 |  3.13 0.04
    energy   |  1.01 0.01 |  1.21 0.01 |  1.38 0.22 |   0.78 0.06 |   1.01 0.04 |  0.67 0.04
    kin8nm   | -1.28 0.01 | -1.14 0.01 | -1.20 0.02 |  -1.11 0.01 |  -1.15 0.01 | -1.18 0.01
    naval    | -4.85 0.06 | -4.45 0.00 | -5.63 0.05 | -10.07 0.01 | -10.01 0.01 | -8.04 0.04
    power    |  2.78 0.01 |  2.80 0.01 |  2.79 0.04 |   2.94 0.01 |   2.77 0.02 |  2.66 0.01
    wine_red |  0.97 0.01 |  0.93 0.01 |  0.94 0.12 |  -0.78 0.07 |  -0.98 0.06 | -0.77 0.07
    yacht    |  1.64 0.02 |  1.25 0.01 |  1.18 0.21 |   0.49 0.06 |   1.07 0.27 |  0.17 0.25
    """
)

# RMSE of regression (appendix), likewise.
UCI_RMSE = _parse(
    """
    set      |    PBP-MV |   Dropout | Ensembles |       RBF |      NNGP |      Ours
    boston   | 3.11 0.15 | 2.90 0.18 | 3.28 1.00 | 3.24 0.21 | 3.07 0.24 | 3.30 0.03
    concrete | 5.08 0.14 | 4.82 0.16 | 6.03 0.58 | 5.63 0.24 | 5.25 0.20 | 5.08 0.14
    energy   | 0.45 0.01 | 0.54 0.06 | 2.09 0.29 | 0.50 0.01 | 0.57 0.02 | 0.44 0.03
    kin8nm   | 0.07 0.00 | 0.08 0.00 | 0.09 0.00 | 0.07 0.00 | 0.07 0.00 | 0.07 0.00
    naval    | 0.00 0.00 | 0.00 0.00 | 0.00 0.00 | 0.00 0.00 | 0.00 0.00 | 0.00 0.00
    power    | 3.91 0.04 | 4.01 0.04 | 4.11 0.17 | 3.82 0.04 | 3.61 0.04 | 3.53 0.04
    wine_red | 0.64 0.01 | 0.62 0.01 | 0.64 0.04 | 0.64 0.01 | 0.57 0.01 | 0.59 0.01
    yacht    | 0.81 0.06 | 0.67 0.05 | 1.58 0.48 | 0.60 0.07 | 0.41 0.04 | 0.35 0.04
    """
)

# NLL of regression with a Burr XII prior (appendix); its first two columns repeat the table above.
UCI_BURR = _parse(
    """
    set      |        NNGP | Inverse gamma |   Burr XII
    boston   |   2.65 0.13 |     2.72 0.05 |  2.77 0.02
    concrete |   3.19 0.05 |     3.13 0.04 |  3.29 0.09
    energy   |   1.01 0.04 |     0.67 0.04 |  0.70 0.04
    kin8nm   |  -1.15 0.01 |    -1.18 0.01 | -1.23 0.01
    naval    | -10.01 0.01 |    -8.04 0.04 | -4.38 0.05
    power    |   2.77 0.02 |     2.66 0.01 |  2.78 0.01
    wine_red |  -0.98 0.06 |    -0.77 0.07 | -0.16 0.05
    yacht    |   1.07 0.27 |     0.17 0.25 |  0.60 0.15
    """
)

# Classification with Gaussian likelihood (appendix): accuracy in per cent, NLL of one-hot targets.
GAUSSIAN_CLASSIFICATION = _parse(
    """
    set                  | accuracy |       NNGP | Inverse gamma |   Burr XII
    mnist/clean          | 96.8 0.2 | 9.29 0.002 |    4.89 0.001 | 4.96 0.001
    mnist/shot_noise     | 94.9 0.4 | 9.32 0.001 |    4.88 0.001 | 4.96 0.001
    mnist/impulse_noise  | 84.4 2.3 | 9.63 0.000 |    5.17 0.001 | 5.25 0.001
    mnist/spatter        | 95.4 0.4 | 9.27 0.001 |    4.44 0.002 | 4.49 0.007
    mnist/glass_blur     | 90.5 0.7 | 9.12 0.001 |    4.20 0.005 | 4.00 0.017
    mnist/zigzag         | 84.9 1.5 | 9.51 0.001 |    4.62 0.006 | 4.49 0.021
    emnist_letters/clean | 70.4 0.9 | 9.40 0.001 |    4.15 0.004 | 4.45 0.013
    fashion_mnist/clean  | 61.3 5.1 | 9.34 0.002 |    4.96 0.002 | 4.97 0.002
    kmnist/clean         | 81.1 1.3 | 9.48 0.001 |    4.60 0.002 | 4.34 0.013
    svhn/clean           | 42.5 1.5 | 6.01 0.062 |    4.16 0.013 | 4.15 0.009
    """
)

# Sparse classification (section 4.4): NLL times 100, accuracy in per cent.
SPARSE = _parse(
    """
    set                     |    SVGP NLL | SVGP accuracy |    SVTP NLL | SVTP accuracy
    mnist/clean             |   8.96 0.12 |    97.73 0.03 |   8.90 0.04 |    97.78 0.04
    mnist/shot_noise        |  24.22 0.08 |    94.63 0.05 |  24.28 0.10 |    94.63 0.07
    mnist/impulse_noise     |  56.52 0.88 |    90.29 0.65 |  57.91 0.57 |    89.36 0.58
    mnist/spatter           |  16.79 0.19 |    95.95 0.04 |  16.66 0.05 |    95.99 0.04
    mnist/glass_blur        | 100.65 2.35 |    62.63 0.65 |  97.19 2.23 |    63.52 0.74
    mnist/left_out          | 216.58 1.83 |    67.70 0.03 | 206.86 1.85 |    67.67 0.03
    kmnist/clean            |  53.93 0.13 |    83.92 0.09 |  53.95 0.30 |    83.96 0.08
    kmnist/left_out         | 268.41 2.40 |    60.76 0.06 | 257.16 1.86 |    60.46 0.05
    fashion_mnist/clean     |  34.30 0.10 |    87.84 0.13 |  34.25 0.13 |    87.90 0.05
    fashion_mnist/left_out  | 252.61 3.51 |    62.29 0.04 | 241.69 2.45 |    62.24 0.06
    cifar10/clean           | 131.96 0.35 |    54.09 0.12 | 132.13 0.24 |    54.10 0.13
    cifar10/shot_noise      | 143.11 0.29 |    49.43 0.14 | 142.30 0.18 |    49.73 0.05
    cifar10/impulse_noise   | 164.90 0.11 |    41.66 0.19 | 160.79 0.75 |    43.08 0.34
    cifar10/spatter         | 141.11 0.30 |    50.34 0.17 | 141.14 0.15 |    50.31 0.15
    cifar10/fog             | 213.50 0.19 |    25.47 0.21 | 209.31 0.48 |    26.03 0.16
    cifar10/snow            | 166.44 0.51 |    41.47 0.27 | 166.41 0.28 |    41.47 0.11
    cifar10/left_out        | 341.59 1.75 |    41.83 0.11 | 333.70 1.83 |    41.19 0.17
    emnist_letters/clean    |  56.49 1.24 |    84.25 0.22 |  54.92 0.84 |    84.55 0.32
    emnist_letters/left_out | 183.25 1.40 |    72.58 0.28 | 177.65 0.43 |    72.38 0.16
    svhn/clean              | 100.88 0.17 |    71.67 0.11 | 101.04 0.13 |    71.71 0.06
    svhn/left_out           | 379.75 9.24 |    46.86 0.19 | 360.40 3.68 |    46.43 0.08
    """
)

# Ensembles of 8 networks (section 4.5): NLL times 100, and divided by the number of classes; accuracy in per cent.
ENSEMBLES = _parse(
    """
    set                        |   plain NLL | plain accuracy | mixture NLL | mixture accuracy
    mnist/clean                |   0.33 0.01 |     98.94 0.04 |   0.32 0.01 |       98.98 0.04
    mnist/shot_noise           |   1.42 0.14 |     95.73 0.48 |   1.42 0.17 |       95.73 0.46
    mnist/impulse_noise        |   5.91 0.68 |     83.10 1.32 |   6.27 0.78 |       82.80 1.31
    mnist/spatter              |   0.76 0.02 |     97.58 0.12 |   0.74 0.02 |       97.63 0.03
    mnist/glass_blur           |   3.25 0.31 |     88.50 1.27 |   2.83 0.20 |       90.22 0.80
    mnist/left_out             |  82.71 2.65 |     68.51 0.01 |  74.31 2.93 |       68.47 0.03
    mnist/imbalance            |   1.50 0.21 |     95.85 0.44 |   1.50 0.23 |       95.82 0.49
    mnist/label_noise          |   7.70 0.06 |     97.62 0.04 |   7.63 0.06 |       97.56 0.03
    cifar10/clean              |   8.68 0.06 |     70.77 0.31 |   8.74 0.08 |       70.22 0.30
    cifar10/shot_noise         |  16.50 0.27 |     51.48 0.34 |  15.28 0.38 |       53.28 0.37
    cifar10/impulse_noise      |  32.39 1.11 |     33.51 1.24 |  29.20 1.49 |       35.66 1.56
    cifar10/spatter            |  12.83 0.23 |     58.60 0.59 |  12.36 0.17 |       59.36 0.26
    cifar10/fog                |  15.40 0.07 |     45.23 0.07 |  15.28 0.06 |       45.73 0.22
    cifar10/snow               |  13.18 0.25 |     57.08 0.48 |  12.76 0.08 |       57.66 0.37
    cifar10/left_out           |  81.57 0.01 |     50.66 0.13 |  80.62 0.86 |       50.46 0.23
    cifar10/imbalance          |  19.22 0.12 |     38.73 1.35 |  19.05 0.18 |       39.74 0.37
    cifar10/label_noise        |  15.88 0.03 |     54.90 0.34 |  15.90 0.05 |       54.81 0.38
    kmnist/clean               |   2.74 0.04 |     93.24 0.20 |   2.75 0.02 |       93.34 0.16
    kmnist/left_out            |  78.64 2.14 |     65.64 0.07 |  70.06 3.14 |       65.61 0.13
    kmnist/imbalance           |   9.47 0.27 |     77.04 0.96 |   9.12 0.57 |       77.23 1.67
    kmnist/label_noise         |  10.78 0.03 |     84.42 0.10 |  10.67 0.03 |       84.30 0.12
    fashion_mnist/clean        |   2.36 0.04 |     91.92 0.11 |   2.37 0.02 |       91.82 0.11
    fashion_mnist/left_out     |  62.17 0.50 |     64.47 0.09 |  58.57 0.97 |       64.48 0.07
    fashion_mnist/imbalance    |   5.54 0.03 |     83.09 0.12 |   5.63 0.08 |       83.00 0.11
    fashion_mnist/label_noise  |   9.30 0.08 |     87.05 0.07 |   9.20 0.06 |       87.27 0.19
    emnist_letters/clean       |   0.76 0.01 |     91.25 0.13 |   0.75 0.01 |       91.30 0.05
    emnist_letters/left_out    |   8.37 0.15 |     76.59 0.09 |   8.25 0.17 |       76.72 0.08
    emnist_letters/label_noise |   3.23 0.02 |     86.64 0.17 |   3.15 0.01 |       86.25 0.20
    svhn/clean                 |   4.68 0.05 |     87.84 0.17 |   4.70 0.04 |       87.82 0.13
    svhn/left_out              | 105.17 1.75 |     56.92 0.03 | 101.87 1.92 |       56.92 0.03
    svhn/imbalance             |  14.20 0.17 |     63.64 0.32 |  14.88 0.19 |       61.97 0.92
    svhn/label_noise           |  12.22 0.11 |     80.24 0.20 |  12.36 0.07 |       79.84 0.24
    """
)
