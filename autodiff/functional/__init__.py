"""The differentiable operations: primitives by family, and fused ones, one file for each derivation."""

from .activations import *
from .assignment import *
from .attention import *
from .composed import *
from .copies import *
from .dropout import *
from .elementwise import *
from .embedding import *
from .exponentials import *
from .hyperbolic import *
from .indexing import *
from .joining import *
from .linalg import *
from .linear import *
from .norms import *
from .powers import *
from .reductions import *
from .rope import *
from .rounding import *
from .scans import *
from .selection import *
from .shape import *
from .signs import *
from .softmax import *
from .trigonometric import *
