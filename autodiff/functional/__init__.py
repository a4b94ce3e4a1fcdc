"""The differentiable operations: primitives by family, and fused ones, one file for each derivation."""

from typing import TYPE_CHECKING, Any

from ..hints import absent
from .activations import *
from .arranging import *
from .assignment import *
from .attention import *
from .convolution import *
from .copies import *
from .covariances import *
from .diagonals import *
from .differences import *
from .dropout import *
from .elementwise import *
from .embedding import *
from .exponentials import *
from .gammas import *
from .heads import *
from .hyperbolic import *
from .indexing import *
from .interpolation import *
from .joining import *
from .lengths import *
from .linalg import *
from .linear import *
from .masked import *
from .matrices import *
from .norms import *
from .picking import *
from .polynomials import *
from .powers import *
from .products import *
from .reductions import *
from .rope import *
from .rounding import *
from .scans import *
from .selection import *
from .shape import *
from .signs import *
from .softmax import *
from .solving import *
from .sorting import *
from .spaces import *
from .special import *
from .spectral import *
from .stacking import *
from .statistics import *
from .trigonometric import *

if not TYPE_CHECKING:  # to a type checker it would say that every name is there

    def __getattr__(name: str) -> Any:
        """Answer names that this module does not have, such as those of other libraries."""
        raise absent(__name__, name, globals())
