"""The recipes, compared with straightforward loops and with the laws that the recipes state."""

import jaxtyping
import numpy as np
import pytest
from scipy import ndimage

from widetail.datasets import shifts
from widetail.datasets.shifts import _mnist_c, _pixels, _water, _weather


def grey(n, seed=0):
    """Smooth blobs: something that corruption changes."""
    noise = np.random.default_rng(seed).random((n, 28, 28))
    blobs = ndimage.gaussian_filter(noise, (0, 3, 3)) - 0.47
    return np.clip(blobs * 4000, 0, 255).astype(np.uint8)


def colour(n, seed=0):
    noise = np.random.default_rng(seed).random((n, 32, 32, 3))
    return np.clip(ndimage.gaussian_filter(noise, (0, 2, 2, 0)) * 255, 0, 255).astype(np.uint8)


CASES = [("mnist", name, None) for name in shifts.MNIST_CORRUPTIONS]
CASES += [("mnist", name, s) for name in shifts.MNIST_CORRUPTIONS if name != "zigzag" for s in (1, 5)]
CASES += [("cifar10", name, s) for name in shifts.CIFAR10_CORRUPTIONS for s in range(1, 6)]


def corrupt(kind, images, name, severity, seed):
    if kind == "mnist":
        return shifts.corrupt_mnist(images, name, severity=severity, seed=seed)
    return shifts.corrupt_cifar10(images, name, severity, seed=seed)


@pytest.mark.parametrize(("kind", "name", "severity"), CASES)
def test_every_corruption_is_seeded_and_changes_pixels(kind, name, severity):
    images = grey(7) if kind == "mnist" else colour(7)
    before = images.copy()
    first = corrupt(kind, images, name, severity, 3)
    assert first.dtype == np.uint8
    assert first.shape == images.shape
    np.testing.assert_array_equal(images, before)
    np.testing.assert_array_equal(first, corrupt(kind, images, name, severity, np.random.default_rng(3)))
    assert (first != images).any(axis=tuple(range(1, images.ndim))).all()
    assert (first != corrupt(kind, images, name, severity, 4)).any()
    assert corrupt(kind, images[:0], name, severity, 0).shape == images[:0].shape


@pytest.mark.parametrize("name", shifts.CIFAR10_CORRUPTIONS)
def test_severity_grows(name):
    images = colour(200)
    damage = [
        np.abs(shifts.corrupt_cifar10(images, name, s, seed=0) - images.astype(float)).mean() for s in range(1, 6)
    ]
    assert damage[-1] > damage[0]
    if name != "spatter":  # water at 1 to 3, mud from 4 on: not of one kind
        assert np.all(np.diff(damage) > 0)


def test_more_images_than_a_block():
    images = np.tile(grey(1), (_pixels._BLOCK + 5, 1, 1))
    out = shifts.corrupt_mnist(images, "impulse_noise", seed=0)
    assert (out[-1] != out[0]).any()
    assert (out[_pixels._BLOCK] != out[0]).any()


def test_shot_noise_is_poisson():
    images = np.full((400, 28, 28), 102, np.uint8)
    counts = shifts.corrupt_mnist(images, "shot_noise", severity=1, seed=0) / 255 * 60
    n = counts.size
    assert counts.mean() == pytest.approx(24, abs=5 * np.sqrt(24 / n))
    assert counts.var() == pytest.approx(24, rel=5 * np.sqrt(2 / n) + 0.01)


@pytest.mark.parametrize(("severity", "share"), [(1, 0.01), (5, 0.07)])
def test_impulse_noise_replaces_values_by_black_and_white(severity, share):
    images = np.full((100, 32, 32, 3), 100, np.uint8)
    out = shifts.corrupt_cifar10(images, "impulse_noise", severity, seed=0)
    error = 5 * np.sqrt(share / 2 / out.size)
    assert (out == 0).mean() == pytest.approx(share / 2, abs=error)
    assert (out == 255).mean() == pytest.approx(share / 2, abs=error)
    assert set(np.unique(out)) == {0, 100, 255}


def test_mud_covers_with_its_colour():
    images = np.full((50, 32, 32, 3), 255, np.uint8)
    out = shifts.corrupt_cifar10(images, "spatter", 5, seed=0).astype(int)
    covered = (out != 255).any(axis=-1)
    assert 0.01 < covered.mean() < 0.3
    mud = np.array([63, 42, 20])
    opacity = (255 - out[covered]) / (255 - mud)
    assert opacity.min() >= 0.8 - 0.02
    np.testing.assert_allclose(opacity - opacity.mean(axis=1, keepdims=True), 0, atol=0.01)


def test_mnist_spatter_leaves_dry_pixels_alone():
    images = grey(30)
    out = shifts.corrupt_mnist(images, "spatter", seed=0)
    untouched = out == images
    assert 0.5 < untouched.mean() < 1
    dark = images == 0
    assert set(np.unique(out[dark])) <= {0, *range(round(0.8 * 63), 64)}


def test_water_only_adds_light_of_its_colour():
    images = np.zeros((40, 32, 32, 3), np.uint8)
    out = shifts.corrupt_cifar10(images, "spatter", 3, seed=0)
    assert out.max(axis=(1, 2)).min() == 175 // 2
    np.testing.assert_array_equal(out[..., 1], out[..., 2])
    wet = out[..., 0] > 20
    np.testing.assert_allclose(out[wet][:, 0] / out[wet][:, 1], 175 / 238, atol=0.05)


def test_edges_run_round_a_square():
    field = np.zeros((2, 20, 20))
    field[0, 5:15, 5:15] = 200
    edge = _water.edges(field)
    assert not edge[1].any()
    rows, columns = np.nonzero(edge[0])
    from_border = np.minimum.reduce(
        [np.abs(rows - 4.5), np.abs(rows - 14.5), np.abs(columns - 4.5), np.abs(columns - 14.5)]
    )
    assert from_border.max() <= 0.5
    assert ndimage.label(~edge[0])[1] == 2


def test_equalised_histogram_against_its_definition():
    levels = np.random.default_rng(0).integers(3, 21, (4, 9, 9)).astype(np.uint8)
    levels[3] = 7
    out = _water.equalised(levels)
    for image, result in zip(levels[:3], out[:3], strict=True):
        at_most = np.array([[(image <= v).sum() for v in row] for row in image])
        lowest = (image == image.min()).sum()
        np.testing.assert_array_equal(result, np.rint((at_most - lowest) / (image.size - lowest) * 255))
    np.testing.assert_array_equal(out[3], 7)


def test_plasma_against_loops():
    """The same draws in the same order, one point at a time."""
    decay, side = 1.75, 32
    fast = _weather.plasma(1, decay, np.random.default_rng(5))[0]
    rng = np.random.default_rng(5)
    a, step, k = np.zeros((side, side)), side, 100.0
    while step >= 2:
        half, corners = step // 2, range(0, side, step)

        def at(i, j, a=a):
            return a[i % side, j % side]

        noise = k * rng.uniform(-k, k, (1, len(corners), len(corners)))[0]
        for i in corners:
            for j in corners:
                around = at(i, j) + at(i + step, j) + at(i, j + step) + at(i + step, j + step)
                a[i + half, j + half] = around / 4 + noise[i // step, j // step]
        sides_across, sides_down = (k * rng.uniform(-k, k, (1, len(corners), len(corners)))[0] for _ in range(2))
        for i in corners:
            for j in corners:
                around = at(i + half, j + half) + at(i - half, j + half) + at(i, j) + at(i, j + step)
                a[i, j + half] = around / 4 + sides_across[i // step, j // step]
        for i in corners:
            for j in corners:
                around = at(i + half, j + half) + at(i + half, j - half) + at(i, j) + at(i + step, j)
                a[i + half, j] = around / 4 + sides_down[i // step, j // step]
        step, k = half, k / decay
    a -= a.min()
    np.testing.assert_allclose(fast, a / a.max(), atol=1e-12)


def test_fog_keeps_the_largest_value_in_place():
    images = np.zeros((3, 32, 32, 3), np.uint8)
    images[:, 4, 4] = 200
    out = shifts.corrupt_cifar10(images, "fog", 5, seed=0)
    # Where the clouds are thickest, (0 + s) M / (M + s).
    brightest = 200 / 255
    thickest = 255 * 1.5 * brightest / (brightest + 1.5)
    np.testing.assert_allclose(out[:, :4].max(axis=(1, 2, 3)), thickest, atol=40)
    assert out.max() <= 200


def test_motion_blur_against_loops():
    rng = np.random.default_rng(0)
    layer, degrees = rng.random((3, 32, 32)), np.array([-135.0, -90.0, -50.0])
    fast = _weather.motion_blur(layer, 8, 3.0, degrees)
    weights = np.exp(-(np.arange(17) ** 2) / 18)
    weights /= weights.sum()
    for image, angle in enumerate(np.deg2rad(degrees)):
        for row, column in [(0, 0), (31, 5), (16, 16), (2, 31)]:
            total = 0.0
            for i, weight in enumerate(weights):
                r = min(max(row + int(np.ceil(i * np.sin(angle) - 0.5)), 0), 31)
                c = min(max(column + int(np.ceil(i * np.cos(angle) - 0.5)), 0), 31)
                total += weight * layer[image, r, c]
            assert fast[image, row, column] == pytest.approx(total)


def test_zoom_into_the_middle():
    ramp = np.tile(np.arange(32.0), (1, 32, 1))
    out = _weather.zoomed(ramp, 1.25)[0]
    # Severity 5 of snow: columns 3 to 28, spread over 32.
    np.testing.assert_allclose(out[0], np.linspace(3, 28, 32))
    np.testing.assert_array_equal(_weather.zoomed(ramp, 1.0)[0], ramp[0])


def test_snow_adds_light_that_looks_the_same_upside_down():
    images = np.zeros((20, 32, 32, 3), np.uint8)
    out = shifts.corrupt_cifar10(images, "snow", 2, seed=0)
    assert out.min() == int(0.1 * 0.5 * 255)
    np.testing.assert_array_equal(out, out[:, ::-1, ::-1])


def test_glass_blur_only_moves_pixels_between_its_blurs(monkeypatch):
    monkeypatch.setattr(_mnist_c, "_blur_down", lambda x, sigma: x)
    images = grey(20)
    out = shifts.corrupt_mnist(images, "glass_blur", seed=0)
    np.testing.assert_array_equal(np.sort(out.reshape(20, -1)), np.sort(images.reshape(20, -1)))
    np.testing.assert_array_equal(out[:, 0, :], images[:, 0, :])  # out of reach of every swap
    assert (out != images).mean() > 0.1


def test_glass_blur_blurs_down_the_columns_only():
    images = np.zeros((1, 28, 28), np.uint8)
    images[0, :, 10:14] = 200
    out = shifts.corrupt_mnist(images, "glass_blur", seed=0)
    np.testing.assert_array_equal(out[0, :, :8], 0)  # two swaps reach two columns


def test_zigzag_against_the_recipe_piece_by_piece():
    """One image at a time, clipping after every piece, as the recipe has it."""
    images = grey(6)
    rng = np.random.default_rng(11)
    starts, rises = rng.integers(0, 27, 6), rng.integers(-5, 5, 6)
    out = shifts.corrupt_mnist(images, "zigzag", seed=11)
    for image, result, r0, rise in zip(images, out, starts, rises, strict=True):
        theta = np.arctan(rise / 23)
        length = 23 / np.cos(theta)
        points = [(0.0, 0.0)]
        points += [((2 * i + 1) * 2, (-1) ** i * 2) for i in range(int(np.floor((length - 2) / 4)) + 1)]
        end = 4 * np.floor(length / 4)
        points.append((length, points[-1][1] / (2 * (length - end))))
        turned = [
            (np.cos(theta) * s - np.sin(theta) * t + 2, np.sin(theta) * s + np.cos(theta) * t + r0) for s, t in points
        ]
        x = image / 255
        for k in range(len(turned) - 1):
            (c0, y0), (c1, y1) = turned[k], turned[k + 1]
            for row in range(28):
                for column in range(int(np.floor(c0)), min(int(np.ceil(c1)), 28)):
                    d = min(abs(row - ((y1 - y0) / (c1 - c0) * (column - c0) + y0)), 2.3 - 1e-6)
                    x[row, column] = min(x[row, column] + np.clip(np.log(1 - d / 2.3) + 1, 0, 1), 1)
        np.testing.assert_array_equal(result, np.rint(x * 255))


def test_bad_input_is_named(monkeypatch):
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)  # as users have it
    with pytest.raises(ValueError, match=r"images must be uint8 of shape \(n, 28, 28\), got float64"):
        shifts.corrupt_mnist(grey(2) / 255, "zigzag", seed=0)
    with pytest.raises(ValueError, match=r"\(n, 32, 32, 3\), got uint8 of shape \(2, 28, 28\)"):
        shifts.corrupt_cifar10(grey(2), "fog", 1, seed=0)
    with pytest.raises(ValueError, match="corruption must be one of shot_noise"):
        shifts.corrupt_mnist(grey(2), "fog", seed=0)
    with pytest.raises(ValueError, match="corruption must be one of shot_noise"):
        shifts.corrupt_cifar10(colour(2), "zigzag", 1, seed=0)
    with pytest.raises(ValueError, match="severity must be an integer from 1 to 5, got 6"):
        shifts.corrupt_cifar10(colour(2), "fog", 6, seed=0)
    with pytest.raises(ValueError, match="zigzag has no severities"):
        shifts.corrupt_mnist(grey(2), "zigzag", severity=2, seed=0)
