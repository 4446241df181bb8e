"""Names of data sets and shifts, as they are shown."""

SETS = {
    "mnist": "MNIST",
    "kmnist": "KMNIST",
    "fashion_mnist": "Fashion MNIST",
    "emnist_letters": "EMNIST",
    "cifar10": "CIFAR10",
    "svhn": "SVHN",
    "digits": "Digits",
    "notmnist": "notMNIST",
}
SHIFTS = {
    "shot_noise": "+ shot noise",
    "impulse_noise": "+ impulse noise",
    "spatter": "+ spatter",
    "glass_blur": "+ glass blur",
    "zigzag": "+ zigzag",
    "fog": "+ fog",
    "snow": "+ snow",
    "left_out": "classes left out",
    "imbalance": "imbalance",
    "label_noise": "label noise",
}


def shown(images: str, shift: str) -> str:
    """For the column of row names."""
    name = SETS.get(images, images)
    return name if shift == "clean" else f"{name} {SHIFTS.get(shift, shift)}"
