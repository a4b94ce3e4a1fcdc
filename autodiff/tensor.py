"""The tensor: an array, its gradient, and its place in the graph.

Operators and methods look their op up in the table by name, so this file knows no op. NumPy's functions find theirs
through the same table: ``np.tanh(t)`` records as ``F.tanh(t)`` does.
"""

from __future__ import annotations

import warnings
import weakref
from threading import Lock
from typing import Any, Never

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .anomaly import sweep
from .arguments import PLAIN, arraylike, flag, reals
from .changes import note_writes
from .hints import answering, refuse_settings
from .lasting import Lasting
from .methods import ArrayMethods
from .node import Array, Leaf, Node, Vertex
from .protocols import to_array, to_index

__all__ = ["Tensor", "as_tensor", "start", "wrap"]


class Tensor(Lasting, ArrayMethods):
    """An array that remembers how it was computed.

    Parameters
    ----------
    data : array_like
        Numbers of any shape. Copied; `as_tensor` shares instead. Of a tensor that requires a gradient, take
        ``x.data`` or ``x.detach()``.
    requires_grad : bool
        Whether to record what is computed from it, so that ``backward`` can fill ``grad``. Floating data only.
    name : str, optional
        For pictures and messages.

    Raises
    ------
    TypeError
        For complex or non-numeric data, for integer data that shall require a gradient, and a name that is no string.

    Examples
    --------
    >>> from autodiff import Tensor
    >>> x = Tensor([1.0, 2.0, 3.0], requires_grad=True)
    >>> y = (x * x).sum()
    >>> y.backward()
    >>> x.grad
    array([2., 4., 6.])
    """

    __slots__ = ("__weakref__", "_grad", "_name", "_values", "node")
    _values: Any  # an ndarray; a NumPy scalar for shape (), which ufuncs handle ten times faster than a 0-d array
    _grad: NDArray[Any] | None
    node: Vertex | None

    def __init_subclass__(cls) -> None:
        raise TypeError("a Tensor cannot be subclassed: hold one as an attribute instead")

    def __init__(
        self, data: ArrayLike, requires_grad: bool = False, name: str | None = None, **others: Never
    ) -> None:
        if others:
            refuse_settings("Tensor()", others, ("data", "requires_grad", "name"))
        array = _numeric(np.array(data._leave("Tensor()") if type(data) is Tensor else arraylike("Tensor()", data)))
        self._values = array if array.ndim else array[()]
        self._grad = None
        self.name = name
        self.node = None
        self.requires_grad = requires_grad

    # --- data, gradient, graph ---

    @property
    def data(self) -> NDArray[Any]:
        """The values. Assigning copies into the array that is there: shapes must match."""
        data: NDArray[Any] = self._values
        if type(data) is not np.ndarray:
            data = self._values = np.asarray(data)
        return data

    @data.setter
    def data(self, values: ArrayLike) -> None:
        if type(self.node) is Node:
            raise RuntimeError(
                f"the data of a result (of {self.node.op.name!r}) cannot be assigned: its graph would be wrong. Assign "
                f"to a leaf, or to a copy: Tensor(x.data)"
            )
        source = np.asarray(reals("t.data = ...", to_array(values)))
        data = self.data
        if source is not data:  # it is, after `t.data -= ...`
            if source.shape != data.shape:
                raise ValueError(f"data of shape {source.shape} assigned to a tensor of shape {data.shape}")
            data[...] = source
        self.stamp()

    def stamp(self) -> None:
        """Note that the data were written to, so that a graph that had saved them refuses to run backward."""
        note_writes([(self._values, self.node)])

    @property
    def grad(self) -> NDArray[Any] | None:
        """The gradient that backward passes have added up here, or None.

        Each of them makes a new array, so one that was taken from here stays as it was.
        """
        if self._grad is None and type(self.node) is Node and self.node.tensor is None:
            warnings.warn(
                f"the gradient of a result (of {self.node.op.name!r}) is not kept, so .grad is None; call "
                f".retain_grad() on it before backward()",
                stacklevel=2,
            )
        return self._grad

    @grad.setter
    def grad(self, value: ArrayLike | None) -> None:
        if value is None:
            self._grad = None
            return
        if value is self._grad:  # it is, after `t.grad *= ...`, and was written to
            note_writes([(value, None)])
            return
        gradient = np.array(reals("t.grad = ...", to_array(value)), dtype=self.dtype)
        if gradient.shape != self.shape:
            raise ValueError(f"a gradient of shape {gradient.shape} assigned to a tensor of shape {self.shape}")
        self._grad = gradient

    @property
    def requires_grad(self) -> bool:
        """Whether computing with it is recorded. Can be set on leaves."""
        return self.node is not None and self.node.requires_grad

    @requires_grad.setter
    def requires_grad(self, value: bool) -> None:
        if type(self.node) is Node:
            raise RuntimeError("requires_grad can only be set on leaves; .detach() gives a constant with these values")
        if flag("requires_grad", value) and self.dtype.kind != "f":
            raise TypeError(
                f"a tensor of dtype {self.dtype} cannot require a gradient: only floating ones have derivatives. Write "
                f"floats, Tensor([1.0, 2.0]), or convert, Tensor(x.astype(float))"
            )
        if bool(value) != self.requires_grad:
            root = None if self.node is None else self.node.root
            self.node = Leaf(self.shape, self.dtype, bool(value), weakref.ref(self) if value else None, root)

    def vertex(self) -> Vertex:
        """Return this tensor's place in the graph; a constant is given one."""
        if self.node is None:
            self.node = Leaf(self.shape, self.dtype, False, weakref.ref(self))
        return self.node

    def retain_grad(self) -> None:
        """Ask backward passes to keep this result's gradient in ``grad`` too."""
        if self.node is None or not self.node.requires_grad:
            raise RuntimeError("retain_grad() on a tensor that does not require a gradient")
        self.node.tensor = weakref.ref(self)

    def detach(self) -> Tensor:
        """Return a constant with the same values. It shares memory, and is read-only for that reason."""
        data = self._values if type(self.node) is Node else self.data  # a leaf's can be written to, so no scalar
        if type(data) is np.ndarray:
            data = data.view()
            data.flags.writeable = False
        return wrap(data, Leaf(data.shape, data.dtype, False, None, self.vertex().root))

    @answering
    def backward(self, cotangent: ArrayLike | None = None, retain_graph: bool = False) -> None:
        """Add the gradient of this tensor to the ``grad`` of every leaf that it was computed from.

        Parameters
        ----------
        cotangent : array_like, optional
            What flows in, of this tensor's shape: the gradient of some scalar with respect to it. May be left out for a
            tensor of one element, where it is 1. Never written to.
        retain_graph : bool
            Keep the saved values, so that backward can run through this graph again.

        Raises
        ------
        RuntimeError
            If nothing here requires a gradient, the graph was released, or saved data have changed.
        ValueError
            If a cotangent is needed, or has the wrong shape.

        Examples
        --------
        >>> from autodiff import Tensor
        >>> x = Tensor([1.0, 2.0, 3.0], requires_grad=True)
        >>> (x * x).backward([1.0, 1.0, 1.0])
        >>> x.grad
        array([2., 4., 6.])
        """
        found = sweep([start(self, cotangent)], retain_graph=flag("retain_graph", retain_graph))
        with _adding:
            for vertex, gradient in found.items():
                tensor = vertex.tensor() if vertex.tensor is not None else None
                if tensor is None:
                    continue
                if type(vertex) is Node or type(gradient) is not np.ndarray:  # it may belong to others
                    gradient = np.array(gradient, order="C")
                if tensor._grad is not None:
                    gradient += tensor._grad  # not the other way: whoever was given the old sum may have saved it
                tensor._grad = gradient

    def __repr__(self) -> str:
        data = np.asarray(self._values)
        parts = [np.array2string(data, separator=", ", prefix="Tensor(", threshold=200, edgeitems=3)]
        if 0 in data.shape:
            parts.append(f"shape={data.shape}")
        if data.dtype not in (np.float64, np.int64, np.bool_):
            parts.append(f"dtype={data.dtype}")
        if type(self.node) is Node:
            parts.append(f"op={self.node.op.name!r}")
        elif self.requires_grad:
            parts.append("requires_grad=True")
        if self.name is not None:
            parts.append(f"name={self.name!r}")
        return f"Tensor({', '.join(parts)})"


    def __setitem__(self, index: Any, value: Any) -> None:
        if self.requires_grad or (type(value) is Tensor and value.requires_grad):
            raise TypeError(
                "item assignment into a recorded tensor, or of one, would lose the gradient: write "
                "y = F.set_at(x, index, value) or np.where(mask, value, x); to set a leaf's values, assign to x.data"
            )
        self.data[arraylike("t[index]", to_index(index))] = reals("t[index] = ...", to_array(value))
        self.stamp()


# --- making tensors, and taking them apart ---

PLAIN.add(Tensor)
_new = object.__new__

_adding = Lock()
"""Held while gradients are added up: another thread's backward pass may reach the same leaves."""


def wrap(data: Array, node: Vertex | None = None) -> Tensor:
    """Make a tensor around an array as it is."""
    tensor: Tensor = _new(Tensor)
    tensor._values = data
    tensor.node = node
    tensor._grad = tensor._name = None
    return tensor


def as_tensor(array: ArrayLike | Tensor) -> Tensor:
    """Make a tensor that shares an array's memory; a tensor is returned as it is.

    Parameters
    ----------
    array : array_like or Tensor
        Numbers of any shape.

    Returns
    -------
    Tensor
        It does not require a gradient, unless it was given so.

    Examples
    --------
    >>> import numpy as np
    >>> import autodiff as ad
    >>> a = np.zeros(2)
    >>> t = ad.as_tensor(a)
    >>> a[0] = 5.0
    >>> t
    Tensor([5., 0.])
    """
    return array if type(array) is Tensor else wrap(_numeric(np.asarray(arraylike("as_tensor()", to_array(array)))))


def _numeric(array: NDArray[Any]) -> NDArray[Any]:
    if array.dtype.kind not in "fiub":
        raise TypeError(
            f"a tensor holds real numbers; got dtype {array.dtype}."
            + (" Split complex numbers into real and imaginary parts." if array.dtype.kind == "c" else "")
            + (" Is None in it? Join tensors with F.stack or F.concatenate." if array.dtype.kind == "O" else "")
        )
    return array


def start(output: Tensor, cotangent: ArrayLike | Tensor | None, recorded: bool = False) -> tuple[Vertex, Array]:
    """Check an output and its cotangent, and make the sweep's starting point of them."""
    if output.node is None or not output.node.requires_grad:
        raise RuntimeError(
            "nothing that this tensor was computed from requires a gradient: make a leaf with "
            "Tensor(data, requires_grad=True), and compute outside of no_grad()"
        )
    if cotangent is None:
        if output.size != 1:
            raise ValueError(
                f"backward from a tensor of shape {output.shape} needs a cotangent of that shape; reduce it to a "
                f"scalar, such as x.sum(), or pass a cotangent, such as np.ones({output.shape})"
            )
        return output.node, np.ones(output.shape, output.dtype)[()]
    if recorded and type(cotangent) is Tensor and cotangent.requires_grad:
        g: Any = cotangent
    else:
        g = np.asarray(arraylike("a cotangent", cotangent)).view()  # of a tensor that requires a gradient, this raises
        g.flags.writeable = False  # it is the caller's
    if g.dtype.kind not in "fiub":
        raise TypeError(f"the cotangent must hold real numbers; it is a {type(cotangent).__name__}, dtype {g.dtype}")
    if g.shape != output.shape:
        raise ValueError(f"the cotangent has shape {g.shape}, the tensor {output.shape}; they must be equal")
    return output.node, g if g.dtype == output.dtype else g.astype(output.dtype)
