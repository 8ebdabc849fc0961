"""Sets that other libraries hold; those that are heavy to install are stood in for by classes with the same methods."""

import numpy as np
import pytest
from PIL import Image

from bispectral_ot import DataWarning, InputError, load

RANDOM = np.random.default_rng(4)
COLOURS = RANDOM.integers(0, 256, (6, 9, 7, 3), dtype=np.uint8)
LABELS = [2, 0, 1, 0, 2, 1]
CLASSES = ["x", "y", "z"]


class MapStyle:
    """A torch dataset of pairs."""

    def __init__(self, make, labels):
        self.make, self.labels, self.read = make, labels, 0

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, i):
        if not 0 <= i < len(self):
            raise IndexError(i)
        self.read += 1
        return self.make(COLOURS[i]), self.labels[i]


@pytest.mark.parametrize("make", [Image.fromarray, np.asarray, lambda image: np.moveaxis(image, -1, 0)])
def test_torch_datasets(make):
    dataset = load(MapStyle(make, LABELS))
    np.testing.assert_array_equal(dataset.images, COLOURS)
    np.testing.assert_array_equal(dataset.labels, LABELS)
    assert (dataset.name, dataset.classes) == ("mapstyle", ("0", "1", "2"))


def test_torchvision_datasets_have_classes_and_targets():
    data = MapStyle(Image.fromarray, LABELS)
    data.classes, data.targets = CLASSES, LABELS
    assert load(data, limit=2).classes == ("x", "y", "z")
    assert data.read < 12  # not every image for the sake of its label
    np.testing.assert_array_equal(load(data).labels, LABELS)


def test_torch_itself():
    torch = pytest.importorskip("torch")
    from torch.utils.data import TensorDataset

    tensors = torch.from_numpy(np.moveaxis(COLOURS, -1, 1).astype(np.float32))
    dataset = load(TensorDataset(tensors, torch.tensor(LABELS)))
    np.testing.assert_array_equal(dataset.images, COLOURS)
    np.testing.assert_array_equal(dataset.labels, LABELS)
    assert len(load(tensors[:, 0])) == 6
    with pytest.raises(InputError, match="bring it to the CPU"):
        load(tensors[:, 0].to("meta"))
    np.testing.assert_array_equal(load(tensors[:, 0].clone().requires_grad_()).images, tensors[:, 0])


def test_datasets_of_the_hub():
    class Feature:
        names = CLASSES

    class Hub:
        column_names, features = ["image", "label"], {"image": None, "label": Feature()}

        def __len__(self) -> int:
            return 6

        def __getitem__(self, key):
            return LABELS if key == "label" else {"image": Image.fromarray(COLOURS[key]), "label": LABELS[key]}

    dataset = load(Hub())
    np.testing.assert_array_equal(dataset.images, COLOURS)
    assert (dataset.classes, dataset.labels.tolist()) == (tuple(CLASSES), list(LABELS))


def test_data_frames_with_paths(tmp_path):
    import pandas

    for i, image in enumerate(COLOURS):
        Image.fromarray(image).save(tmp_path / f"{i}.png")
    frame = pandas.DataFrame({"path": [str(tmp_path / f"{i}.png") for i in range(6)], "label": LABELS})
    dataset = load(frame)
    np.testing.assert_array_equal(dataset.images, COLOURS)
    np.testing.assert_array_equal(dataset.labels, LABELS)
    np.testing.assert_array_equal(load(sorted(tmp_path.iterdir())).images, COLOURS)
    frame.loc[2, "path"] = str(tmp_path / "none.png")
    with pytest.raises(InputError, match=r"the data frame: there is no file .*none\.png"):
        load(frame)
    with pytest.raises(InputError, match="expected images of shape"):
        load(pandas.DataFrame({"a": [1.0, 2.0]}))


def test_items_of_mixed_sizes_and_items_that_are_no_images():
    data = MapStyle(lambda image: image[: 4 + int(image[0, 0, 0]) % 4], LABELS)
    with pytest.warns(DataWarning, match="and are compared at 7 x 7"):
        assert load(data).images.shape == (6, 7, 7, 3)
    data.make = lambda image: "text"
    with pytest.raises(InputError, match=r"item 0 must be an image"):
        load(data)
