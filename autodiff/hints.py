"""What to write instead: for NumPy functions that are not recorded, and for the names of other libraries.

Messages name the nearest thing by what it means, not by how it is spelled; so the meanings stand here, in one place.
"""

from __future__ import annotations

from collections.abc import Iterable

from .signature import nearest

__all__ = ["ATTRIBUTES", "SETTINGS", "instead"]

_DATA = "a result without a gradient comes from t.data"
_FIT = "write the fit as a loss, or solve its normal equations with np.linalg.solve"
_INTEGERS = "it works on integers and booleans only, which have no gradient: convert t.data"
_LISTS = "index with an integer array, as in t[indices], and join the pieces with np.concatenate"
_ORDER = "np.sort(t) and an index: t.data decides which elements they are"
_POLYNOMIAL = "write the polynomial out (Horner's rule), or coefficients @ powers with np.stack of x**k"
_SETS = "it depends on which numbers are equal: call it on t.data, and index the tensor with the result"
_SPECTRUM = "complex numbers are not covered: real and imaginary parts are products with matrices of cosines and sines"
_BINS = "F.scatter_add(weights, index=np.digitize(t, edges), shape=(count,)) adds up what falls into each bin"
_WRITE = "nothing can be written into a recorded tensor: y = F.set_at(t, index, value), or np.where(mask, value, t)"

_MEANINGS: dict[str, tuple[str, ...]] = {
    _ORDER: ("np.percentile", "np.quantile", "np.nanpercentile", "np.nanquantile", "np.nanmedian", "np.sort_complex"),
    _SETS: (
        "np.unique", "np.unique_all", "np.unique_counts", "np.unique_inverse", "np.unique_values", "np.union1d",
        "np.intersect1d", "np.setdiff1d", "np.setxor1d", "np.trim_zeros",
    ),
    _WRITE: (
        "np.put", "np.place", "np.putmask", "np.copyto", "np.put_along_axis", "np.fill_diagonal",
    ),
    _LISTS: ("np.insert", "np.delete", "np.append", "np.resize"),
    _POLYNOMIAL: (
        "np.poly", "np.polyval", "np.polyadd", "np.polysub", "np.polymul", "np.polydiv", "np.polyder", "np.polyint",
    ),
    _FIT: ("np.polyfit", "np.linalg.lstsq", "np.linalg.tensorsolve", "np.linalg.tensorinv"),
    _BINS: ("np.histogram", "np.histogram2d", "np.histogramdd", "np.bincount", "np.histogram_bin_edges"),
    _INTEGERS: (
        "np.bitwise_and", "np.bitwise_or", "np.bitwise_xor", "np.bitwise_count", "np.invert", "np.left_shift",
        "np.right_shift", "np.gcd", "np.lcm", "np.packbits", "np.unpackbits",
    ),
    "write the loop out, or write the function for whole arrays; np.stack joins its results": (
        "np.apply_along_axis", "np.apply_over_axes", "np.vectorize",
    ),
    "np.where, once for each case; F.safe_where if a case is not defined everywhere": ("np.piecewise", "np.choose"),
    "index with the condition: t[condition]": ("np.compress", "np.extract"),
    "d = t - t.mean(axis=1, keepdims=True), then d @ d.T / (d.shape[1] - 1)": ("np.cov",),
    "the covariance d @ d.T of d = t - t.mean(axis=1, keepdims=True), divided by its deviations": ("np.corrcoef",),
    "save t.data, or a module's state_dict": ("np.save", "np.savez", "np.savez_compressed", "np.savetxt"),
    "np.linalg.slogdet, np.linalg.eigh (for symmetric matrices) or np.linalg.svd": (
        "np.linalg.eig", "np.linalg.eigvals", "np.roots",
    ),
    "t + 2 * np.pi * k, where k = the integers that np.unwrap(t.data) adds": ("np.unwrap",),
    "start + steps * (stop - start), with steps = np.linspace(0, 1, count)": ("np.linspace",),
    "np.exp of evenly spaced logarithms: start + steps * (stop - start), steps = np.linspace(0, 1, count)": (
        "np.logspace", "np.geomspace",
    ),
    "np.stack for new axes, np.concatenate along axes that are there": ("np.block",),
    "np.moveaxis": ("np.rollaxis",),
    "F.scatter_add(values, index=..., shape=...), which adds up what meets in one place": (
        "np.add.at", "np.add.reduceat",
    ),
    "np.sqrt of the sum of squares, or np.linalg.norm": ("np.hypot.reduce",),
    "scipy.special's ufuncs that are recorded, listed in autodiff.functional.special": ("np.i0",),
    "it is a constant almost everywhere: call it on t.data": ("np.angle", "np.spacing", "np.imag"),
    "it is x1 itself up to rounding": ("np.nextafter",),
}  # fmt: skip

_INSTEAD = {name: meaning for meaning, names in _MEANINGS.items() for name in names}


def instead(name: str, covered: Iterable[str]) -> str:
    """Return a sentence that names what to write in place of a function, by its full name; or nothing."""
    if name in _INSTEAD:
        return f" Instead: {_INSTEAD[name]}."
    if name.startswith("np.fft."):
        return f" Instead: {_SPECTRUM}."
    return nearest(name, covered, cutoff=0.8)


SETTINGS: dict[str, str] = {
    "dim": "axis", "keepdim": "keepdims", "dims": "axes", "unbiased": "ddof", "correction": "ddof", "input": "",
}  # fmt: skip
"""Settings of PyTorch's functions, by what they are called here."""

_NO_DEVICES = "everything is computed on the CPU: leave it out"
_IN_PLACE = "nothing is changed in place: assign the result, as in t = t + 1, or write to t.data of a leaf"

ATTRIBUTES: dict[str, str] = {
    **dict.fromkeys(("cuda", "cpu", "to", "device", "pin_memory"), _NO_DEVICES),
    **dict.fromkeys(("add_", "sub_", "mul_", "div_", "zero_", "fill_", "copy_", "clamp_", "relu_"), _IN_PLACE),
    "unsqueeze": "write np.expand_dims(t, axis), or t[:, None]",
    "view": "write t.reshape(shape)",
    "view_as": "write t.reshape(other.shape)",
    "expand": "write np.broadcast_to(t, shape)",
    "expand_as": "write np.broadcast_to(t, other.shape)",
    "permute": "write t.transpose(axes)",
    "contiguous": "every result is laid out as NumPy's is: leave it out",
    "masked_fill": "write np.where(mask, value, t)",
    "index_select": "write np.take(t, indices, axis)",
    "gather": "write np.take_along_axis(t, indices, axis)",
    "scatter_add": "write F.scatter_add(values, index=..., shape=...)",
    "scatter": "write F.set_at(t, index, value)",
    "at": "write F.set_at(t, index, value)",
    "chunk": "write np.split(t, count, axis)",
    "unbind": "write list(t), or [t[:, i] for i in range(...)]",
    "clamp": "write t.clip(low, high)",
    "mm": "write a @ b",
    "bmm": "write a @ b",
    "mv": "write a @ b",
    "matmul": "write a @ b",
    "add": "write a + b",
    "sub": "write a - b",
    "mul": "write a * b",
    "div": "write a / b",
    "pow": "write a**b",
    "neg": "write -a",
    "rsqrt": "write 1 / np.sqrt(t)",
    "lerp": "write a + weight * (b - a)",
    "numel": "write t.size",
    "nelement": "write t.size",
    "dim": "write t.ndim",
    "type": "write t.dtype, or t.astype(dtype)",
    "float": "write t.astype(np.float32)",
    "double": "write t.astype(np.float64)",
    "half": "write t.astype(np.float16)",
    "long": "write t.data.astype(int)",
    "value": "write t.data",
    "zero_grad": "write t.grad = None; an optimiser and a module have zero_grad()",
    "grad_fn": "write t.node, which has the op, the parents and what was saved",
    "is_leaf": "a leaf is what no op made: look at t.node",
    "requires_grad_": "write t.requires_grad = True",
    "detach_": "write t = t.detach()",
    "register_hook": "write t.retain_grad() and read t.grad after backward()",
    "new_zeros": "write np.zeros(shape, t.dtype)",
    "new_ones": "write np.ones(shape, t.dtype)",
    "topk": "write np.sort(t)[..., -k:]",
    "norm": "write np.linalg.norm(t)",
    "softplus": "write F.softplus(t)",
    "copy": "write np.positive(t) for a recorded copy, t.numpy() for the values, t.detach() for a constant",
    "fill": "write np.full_like(t.data, value)",
    "tofile": "write t.data.tofile(file)",
    "tobytes": "write t.data.tobytes()",
    "flat": "write t.ravel()",
    "flags": "write t.data.flags",
    "strides": "write t.data.strides",
    "nbytes": "write t.data.nbytes",
    "itemsize": "write t.data.itemsize",
    "real": "every tensor is real: write t",
}
"""Attributes that tensors of other libraries have, and NumPy's arrays: what is written here."""
