"""The official sets: what they are and where their files are published."""

from __future__ import annotations

from dataclasses import dataclass

MNIST_FILES = {
    "train": ("train-images-idx3-ubyte", "train-labels-idx1-ubyte"),
    "test": ("t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"),
}
_EMNIST_FILES = {
    "train": ("emnist-letters-train-images-idx3-ubyte", "emnist-letters-train-labels-idx1-ubyte"),
    "test": ("emnist-letters-test-images-idx3-ubyte", "emnist-letters-test-labels-idx1-ubyte"),
}


@dataclass(frozen=True)
class OfficialSet:
    """Facts of one published set of 28 x 28 grey images.

    ``files`` names (images, labels) of each split, without the ``.gz`` that the published files end with.
    ``sha256`` belongs to the published files; a single archive that holds them all is named by ``archive``.
    ``first_labels`` distinguishes sets whose files have the same names.
    """

    name: str
    title: str
    classes: tuple[str, ...]
    counts: dict[str, int]
    torchvision_folder: str
    mirrors: tuple[str, ...]
    sha256: dict[str, str]
    source: str
    files: dict[str, tuple[str, str]]
    archive: str = ""
    first_label: int = 0
    first_labels: tuple[str, ...] = ()


def _by_file(*sums: str) -> dict[str, str]:
    """Checksums of MNIST-like files, in the order train images, train labels, test images, test labels."""
    names = [f"{stem}.gz" for pair in MNIST_FILES.values() for stem in pair]
    return dict(zip(names, sums, strict=True))


OFFICIAL = {
    official.name: official
    for official in (
        OfficialSet(
            name="mnist",
            title="digits",
            classes=tuple("0123456789"),
            counts={"train": 60_000, "test": 10_000},
            torchvision_folder="MNIST",
            mirrors=(
                "https://ossci-datasets.s3.amazonaws.com/mnist/",
                "https://storage.googleapis.com/cvdf-datasets/mnist/",
            ),
            sha256=_by_file(
                "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
                "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c",
                "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
                "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6",
            ),
            source="LeCun, Cortes and Burges",
            files=MNIST_FILES,
            first_labels=("5041921314", "7210414959"),
        ),
        OfficialSet(
            name="fashion-mnist",
            title="clothing",
            classes=(
                "T-shirt/top",
                "Trouser",
                "Pullover",
                "Dress",
                "Coat",
                "Sandal",
                "Shirt",
                "Sneaker",
                "Bag",
                "Ankle boot",
            ),
            counts={"train": 60_000, "test": 10_000},
            torchvision_folder="FashionMNIST",
            mirrors=(
                "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",
                "https://raw.githubusercontent.com/zalandoresearch/fashion-mnist/master/data/fashion/",
            ),
            sha256=_by_file(
                "3aede38d61863908ad78613f6a32ed271626dd12800ba2636569512369268a84",
                "a04f17134ac03560a47e3764e11b92fc97de4d1bfaf8ba1a3aa29af54cc90845",
                "346e55b948d973a97e58d2351dde16a484bd415d4595297633bb08f03db6a073",
                "67da17c76eaffca5446c3361aaab5c3cd6d1c2608764d35dfb1850b086bf8dd5",
            ),
            source="Zalando Research (MIT)",
            files=MNIST_FILES,
            first_labels=("9003027255", "9211614657"),
        ),
        OfficialSet(
            name="kmnist",
            title="old Japanese",
            classes=("o", "ki", "su", "tsu", "na", "ha", "ma", "ya", "re", "wo"),
            counts={"train": 60_000, "test": 10_000},
            torchvision_folder="KMNIST",
            mirrors=(
                "https://codh.rois.ac.jp/kmnist/dataset/kmnist/",
                "http://codh.rois.ac.jp/kmnist/dataset/kmnist/",
            ),
            sha256=_by_file(
                "51467d22d8cc72929e2a028a0428f2086b092bb31cfb79c69cc0a90ce135fde4",
                "e38f9ebcd0f3ebcdec7fc8eabdcdaef93bb0df8ea12bee65224341c8183d8e17",
                "edd7a857845ad6bb1d0ba43fe7e794d164fe2dce499a1694695a792adfac43c5",
                "20bb9a0ef54c7db3efc55a92eef5582c109615df22683c380526788f98e42a1c",
            ),
            source="'KMNIST Dataset' (created by CODH), adapted from 'Kuzushiji Dataset' (CC BY-SA 4.0)",
            files=MNIST_FILES,
            first_labels=("8701424811",),
        ),
        OfficialSet(
            name="emnist-letters",
            title="letters",
            classes=tuple("abcdefghijklmnopqrstuvwxyz"),
            counts={"train": 124_800, "test": 20_800},
            torchvision_folder="EMNIST",
            mirrors=(
                "https://biometrics.nist.gov/cs_links/EMNIST/",
                "https://www.itl.nist.gov/iaui/vip/cs_links/EMNIST/",
            ),
            sha256={"gzip.zip": "fb9bb67e33772a9cc0b895e4ecf36d2cf35be8b709693c3564cea2a019fcda8e"},
            source="Cohen, Afshar, Tapson and van Schaik, from NIST Special Database 19",
            files=_EMNIST_FILES,
            archive="gzip.zip",
            first_label=1,
        ),
    )
}
