# The public names and their modules, for type checkers and for __init__.py.
from ._version import (
    __version__ as __version__,
)
from .comparing import (
    Comparison as Comparison,
    compare as compare,
)
from .costs import (
    Cost as Cost,
)
from .datasets import (
    Dataset as Dataset,
    center as center,
    load as load,
    normalize as normalize,
    rotate_randomly as rotate_randomly,
    split_halves as split_halves,
)
from .errors import (
    ClusterError as ClusterError,
    DataWarning as DataWarning,
    DatasetError as DatasetError,
    InputError as InputError,
    MemoryBudgetError as MemoryBudgetError,
    NotConvergedWarning as NotConvergedWarning,
    RunExistsError as RunExistsError,
)
from .features import (
    GlobalBispectrum as GlobalBispectrum,
    CyclicBispectrum as CyclicBispectrum,
    RingBispectrum as RingBispectrum,
    TranslationBispectrum as TranslationBispectrum,
)
from .matching import (
    LabelTransfer as LabelTransfer,
    Match as Match,
    class_preservation as class_preservation,
    match as match,
)
from .report import (
    open_run as open_run,
)
from .runtime import (
    ProgressBar as ProgressBar,
)
from .transport import (
    ExactTransport as ExactTransport,
    Sinkhorn as Sinkhorn,
)
