"""What to write instead: for NumPy functions that are not recorded, and for the names of other libraries.

Messages name the nearest thing by what it means, not by how it is spelled; so the meanings stand here, in one place.
"""

from __future__ import annotations

import functools
import inspect
import re
import sys
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any, TypeVar, cast

import numpy as np

from .node import OPS
from .signature import nearest

__all__ = ["ATTRIBUTES", "absent", "answering", "in_place", "instead", "meant", "no_attribute", "refuse_settings"]

Method = TypeVar("Method", bound=Callable[..., Any])

_FIT = "the fit as a loss to minimise, or np.linalg.solve for its normal equations"
_INTEGERS = "the function on t.data converted to integers or booleans, which have no gradient"
_POLYNOMIAL = "np.polyval, np.polyadd, np.polysub, np.polymul, np.polyder or np.polyint, which are recorded"
_SETS = "the function on t.data, and what it tells about positions as an index into t"
_SPECTRUM = "products with matrices of cosines and sines, for the real and the imaginary part (none is complex here)"
_BINS = "F.scatter_add(weights, index=np.digitize(t, edges), shape=(count,)) adds up what falls into each bin"
_HUBER = "np.where(np.abs(r) <= delta, r * r / 2, delta * (np.abs(r) - delta / 2))"
_WRITE = "y = F.set_at(t, index, value) or np.where(mask, value, t), since nothing is written into a recorded tensor"

_MEANINGS: dict[str, tuple[str, ...]] = {
    "the same function without nan, of t[~np.isnan(t)]": ("np.nanmedian", "np.nanpercentile", "np.nanquantile"),
    "np.sort: no tensor is complex": ("np.sort_complex",),
    "np.isin, its newer name": ("np.in1d",),
    "np.trapezoid, its newer name": ("np.trapz",),
    "np.linalg.svd, of whose singular values it is the largest divided by the smallest": ("np.linalg.cond",),
    "t.data: dates have no gradient": (
        "np.isnat", "np.is_busday", "np.busday_count", "np.busday_offset", "np.datetime_as_string",
    ),
    _SETS: (
        "np.unique", "np.unique_all", "np.unique_counts", "np.unique_inverse", "np.unique_values", "np.union1d",
        "np.intersect1d", "np.setdiff1d", "np.setxor1d",
    ),
    "t[start:stop], with the places where t.data is not 0; of a poly1d p, p.coeffs": ("np.trim_zeros",),
    _WRITE: (
        "np.put", "np.place", "np.putmask", "np.copyto", "np.put_along_axis", "np.fill_diagonal",
    ),
    _POLYNOMIAL: ("np.polydiv",),
    _FIT: ("np.polyfit", "np.linalg.lstsq", "np.linalg.tensorsolve", "np.linalg.tensorinv"),
    _BINS: ("np.histogram", "np.histogram2d", "np.histogramdd", "np.bincount", "np.histogram_bin_edges"),
    _INTEGERS: (
        "np.bitwise_and", "np.bitwise_or", "np.bitwise_xor", "np.bitwise_count", "np.invert", "np.left_shift",
        "np.right_shift", "np.gcd", "np.lcm", "np.packbits", "np.unpackbits",
    ),
    "a loop, whose results np.stack joins, or the function written for whole arrays": (
        "np.apply_along_axis", "np.apply_over_axes",
    ),
    "np.where, once for each case; F.safe_where if a case is not defined everywhere": ("np.piecewise",),
    "t.data, or a module's state_dict()": ("np.save", "np.savez", "np.savez_compressed", "np.savetxt"),
    "np.linalg.slogdet, np.linalg.eigh (for symmetric matrices) or np.linalg.svd": (
        "np.linalg.eig", "np.linalg.eigvals", "np.roots",
    ),
    "t + 2 * np.pi * k, where k = the integers that np.unwrap(t.data) adds": ("np.unwrap",),
    "it on plain integer or boolean arrays, and t[np.ix_(rows, columns)]": ("np.ix_",),
    "F.scatter_add(values, index=..., shape=...), which adds up what meets in one place": (
        "np.add.at", "np.add.reduceat",
    ),
    "np.sqrt of the sum of squares, or np.linalg.norm": ("np.hypot.reduce",),
    "scipy.special's ufuncs that are recorded, listed in autodiff.functional.special": ("np.i0",),
    "np.deg2rad(degrees + minutes / 60 + seconds / 3600)": ("scipy.special.radian",),
    "-F.xlogy(t, t)": ("scipy.special.entr",),
    "F.xlogy(x, x / y)": ("scipy.special.rel_entr",),
    "F.xlogy(x, x / y) - x + y": ("scipy.special.kl_div",),
    "10**t": ("scipy.special.exp10",),
    "np.expm1(t) / t": ("scipy.special.exprel",),
    "-2 * np.sin(t / 2) ** 2": ("scipy.special.cosm1",),
    "np.expm1(y * np.log(x))": ("scipy.special.powm1",),
    "np.expm1(power * np.log(x)) / power": ("scipy.special.boxcox",),
    "np.sin, np.cos or np.tan of np.deg2rad(t)": (
        "scipy.special.sindg", "scipy.special.cosdg", "scipy.special.tandg",
    ),
    "scipy.special.gammaln, for positive numbers": ("scipy.special.loggamma",),
    "1 / scipy.special.gamma(t)": ("scipy.special.rgamma",),
    "scipy.special.gammaln(a) + scipy.special.gammaln(b) - scipy.special.gammaln(a + b)": ("scipy.special.betaln",),
    "np.exp of sums of scipy.special.gammaln": ("scipy.special.beta", "scipy.special.binom", "scipy.special.poch"),
    "scipy.special.erfinv(1 - t)": ("scipy.special.erfcinv",),
    "np.sqrt(2) * scipy.special.erfinv(2 * t - 1)": ("scipy.special.ndtri",),
    _HUBER: ("scipy.special.huber",),
    "delta**2 * (np.sqrt(1 + (r / delta) ** 2) - 1)": ("scipy.special.pseudo_huber",),
    "t.data: it is a constant almost everywhere": ("np.angle", "np.spacing"),
    "the first argument itself, from which it differs by rounding only": ("np.nextafter",),
}  # fmt: skip

_INSTEAD = {name: meaning for meaning, names in _MEANINGS.items() for name in names}


def instead(name: str, covered: Iterable[str]) -> str:
    """Return a sentence that names what to write in place of a function, by its full name; or nothing."""
    if name in _INSTEAD:
        return f" Instead: {_INSTEAD[name]}."
    if name.startswith("np.fft."):
        return f" Instead: {_SPECTRUM}."
    module, _, own = name.rpartition(".")
    names = {full.rpartition(".")[2]: full for full in sorted(covered, key=lambda full: full.startswith(f"{module}."))}
    if module == "scipy.special" and own not in names:  # no misspelling, but another function
        return ""
    found = nearest(own, names, cutoff=0.8)
    return re.sub("'(.+)'", lambda match: repr(names[match[1]]), found)


_SETTINGS = {
    "dim": "axis", "dims": "axes", "dim1": "axis1", "dim2": "axis2", "keepdim": "keepdims", "unbiased": "ddof",
    "input": "a", "other": "x2", "gradient": "cotangent", "grad_outputs": "cotangents", "argnum": "argnums",
    "in_features": "d_in", "out_features": "d_out", "num_embeddings": "count", "embedding_dim": "d",
    "normalized_shape": "d", "elementwise_affine": "gain", "learning_rate": "lr", "beta1": "betas", "beta2": "betas",
}  # fmt: skip
"""What settings of PyTorch's functions are called here."""


def refuse_settings(name: str, given: Iterable[str], known: Sequence[str], signature: str = "") -> None:
    """Refuse a setting that a function does not have; name the one that is meant."""
    for setting in given:
        if setting not in known:
            raise TypeError(f"{name} has no setting {setting!r}{signature}.{meant(setting, known)}")


def meant(setting: str, known: Collection[str]) -> str:
    """Return a sentence that names what is meant by a setting that is not known; or nothing."""
    ours = _SETTINGS.get(setting)
    hint = f" Write {_VALUES.get(setting, f'{ours}=...')} for it." if ours in known else nearest(setting, known)
    return _ELSEWHERE.get(setting, hint)


_VALUES = {"unbiased": "ddof=0 (unbiased=False) or ddof=1 (unbiased=True)"}
"""What values of a setting there become here, where they have other ones."""

_NO_DEVICES = "everything is computed on the CPU: leave it out"

_ELSEWHERE = {
    "create_graph": " ad.gradients has it.",
    "inputs": " ad.gradients takes them.",
    "device": f" Here {_NO_DEVICES}.",
    "dtype": " Give an array of this dtype: np.asarray(data, dtype).",
    "inplace": " Nothing is changed in place: leave it out.",
    "allow_unused": " The gradient of an input that is not used is 0: leave it out.",
    "set_to_none": " It always does: leave it out.",
    "amsgrad": " AdamW is without: leave it out.",
    "holomorphic": " Everything is real: leave it out.",
    "allow_int": " Convert integers, x.astype(float).",
    "reduce_axes": " Sum over axes in the function.",
    "descending": " Write [..., ::-1] behind the call.",
}
"""What is had otherwise here."""


_CLOSURE = {"step": " Of a closure, call it before: it computes the loss, and backward the gradients."}


def answering(method: Method) -> Method:
    """Let a function or method that lists its parameters refuse all other arguments in our words."""
    parameters = inspect.signature(method).parameters
    known = tuple(parameters)
    kinds = [parameter.kind for parameter in parameters.values()]
    open_ended = inspect.Parameter.VAR_POSITIONAL in kinds
    most = sys.maxsize if open_ended else len(kinds) - kinds.count(inspect.Parameter.KEYWORD_ONLY)
    name = method.__qualname__.removesuffix(".__init__") if method.__name__ == "__init__" else method.__name__

    @functools.wraps(method)
    def call(*args: Any, **settings: Any) -> Any:
        if settings:
            refuse_settings(f"{name}()", settings, known, "; pass arguments by position" * open_ended)
        if len(args) > most:
            listed = ", ".join(other for other in known[:most] if other != "self") or "no argument"
            hint = _CLOSURE.get(name, "")
            raise TypeError(f"{name}() takes {listed} by position; {args[most]!r:.60} is too many.{hint}")
        return method(*args, **settings)

    return cast("Method", call)


_IN_PLACE = "nothing is changed in place: assign the result, as in t = t + 1, or write to t.data of a leaf"

_MODULES: dict[str, str] = {
    "forward": "define it in the class",
    **dict.fromkeys(("cuda", "cpu", "to", "device", "pin_memory", "share_memory"), _NO_DEVICES),
    **dict.fromkeys(("float", "double", "half", "bfloat16", "type", "dtype"), "build the layers with dtype=np.float32"),
    **dict.fromkeys(
        ("register_buffer", "buffers", "named_buffers"),
        "write self.name = Tensor(values), without requires_grad: state_dict() has it, and no optimiser trains it (an "
        "array as an attribute is not in state_dict())",
    ),
    "register_parameter": "write self.name = Tensor(values, requires_grad=True)",
    **dict.fromkeys(("add_module", "register_module"), "write self.name = module"),
    **dict.fromkeys(("get_parameter", "get_buffer", "params"), "write dict(module.named_parameters())[name]"),
    "get_submodule": "write module.name, or dict(module.children())[name]",
    "named_children": "children() yields pairs of a name and a module",
    **dict.fromkeys(
        ("register_forward_hook", "register_forward_pre_hook", "register_backward_hook", "register_full_backward_hook"),
        "define forward in a subclass; for a gradient inside write t.retain_grad() and read t.grad after backward()",
    ),
    **dict.fromkeys(("compile", "jit"), "each call runs as it is written: leave it out"),
    "backward": "write loss.backward()",
    "grad": "each parameter has its own: p.grad for p in module.parameters()",
    **dict.fromkeys(("step", "fit"), "an optimiser has step(): optim.AdamW(module.parameters(), lr=1e-3)"),
    **dict.fromkeys(("in_features", "out_features"), "write module.weight.shape, which is (in, out)"),
    **dict.fromkeys(("num_embeddings", "embedding_dim"), "write module.weight.shape"),
    **dict.fromkeys(("reset_parameters", "init"), "make a new layer, or assign to p.data"),
    **dict.fromkeys(("freeze", "unfreeze"), "write p.requires_grad = False, or True, for p in module.parameters()"),
    "save": 'write np.savez("model.npz", **module.state_dict())',
    "load": 'write module.load_state_dict(np.load("model.npz"))',
    "numel": "write module.parameter_count()",
}  # fmt: skip
"""Attributes that modules of other libraries have: what is written here."""


def no_attribute(module: Any, name: str) -> Any:
    """Say what is written here instead of an attribute of other libraries' modules: a module's ``__getattr__``."""
    if hasattr(type(module), name):  # a property, which has raised an AttributeError of its own
        return object.__getattribute__(module, name)
    hint = f": {_MODULES[name]}" if name in _MODULES else ""
    raise AttributeError(f"{type(module).__name__!r} object has no attribute {name!r}{hint}", name=name, obj=module)


ATTRIBUTES: dict[str, str] = {
    **dict.fromkeys(("cuda", "cpu", "to", "device", "pin_memory"), _NO_DEVICES),
    "clone": "write t.copy()",
    "eq": "write a == b",
    "ne": "write a != b",
    "gt": "write a > b",
    "ge": "write a >= b",
    "lt": "write a < b",
    "le": "write a <= b",
    "narrow": "write t[start : start + length]",
    "movedim": "write np.moveaxis(t, source, destination)",
    "where": "write np.where(condition, t, other)",
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
    "int": "write t.data.astype(int)",
    "bool": "write t.data.astype(bool)",
    "value": "write t.data",
    "zero_grad": "write t.grad = None; an optimiser and a module have zero_grad()",
    "grad_fn": "write t.node, which has the op, the parents and what was saved",
    "is_leaf": "a leaf is what no op made: look at t.node",
    "requires_grad_": "write t.requires_grad = True, or t.requires_grad = False",
    "detach_": "write t = t.detach()",
    "register_hook": "write t.retain_grad() and read t.grad after backward()",
    "new_tensor": "write Tensor(np.array(data, t.dtype))",
    "new_full": "write np.full(shape, value, t.dtype)",
    "new_zeros": "write np.zeros(shape, t.dtype)",
    "new_ones": "write np.ones(shape, t.dtype)",
    "topk": "write np.sort(t)[..., -k:]",
    "norm": "write np.linalg.norm(t)",
    "softplus": "write F.softplus(t)",
    "fill": "write np.full_like(t.data, value)",
    "tofile": "write t.data.tofile(file)",
    "tobytes": "write t.data.tobytes()",
    "flat": "write t.ravel()",
    "flags": "write t.data.flags",
    "strides": "write t.data.strides",
    "imag": "every tensor is real: its imaginary part is 0",
    "put": "write F.set_at(t, index, value)",
}
"""Attributes that tensors of other libraries have, and NumPy's arrays: what is written here."""


def in_place(name: str) -> str:
    """Return what to write for a name that ends as those of PyTorch's methods that write into a tensor; or nothing."""
    return _IN_PLACE if name.endswith("_") else ""


_FUNCTIONS = {
    "Parameter": "Tensor(data, requires_grad=True), as an attribute of a module",
    "Sequential": "a class of your own with a list of layers, called one after the other",
    "ModuleList": "a list",
    "ModuleDict": "a dictionary",
    "ReLU": "the function F.relu",
    "GELU": "the function F.gelu",
    "SiLU": "the function F.silu",
    "Tanh": "the function np.tanh",
    "Sigmoid": "the function F.sigmoid",
    "Softmax": "the function F.softmax",
    "CrossEntropyLoss": "the function F.cross_entropy",
    **dict.fromkeys(("MSELoss", "mse_loss"), "((t - u) ** 2).mean()"),
    **dict.fromkeys(("BCEWithLogitsLoss", "binary_cross_entropy_with_logits"), "(F.softplus(t) - target * t).mean()"),
    "one_hot": "np.eye(count)[ids]",
    "functional": "import autodiff.functional as F",
    "F": "import autodiff.functional as F",
    **dict.fromkeys(("L1Loss", "l1_loss"), "abs(t - u).mean()"),
    **dict.fromkeys(("NLLLoss", "nll_loss"), "F.cross_entropy(logits, targets), which takes the logits themselves"),
    **dict.fromkeys(("BCELoss", "binary_cross_entropy"), "(F.softplus(t) - target * t).mean(), of the logits t"),
    **dict.fromkeys(("SmoothL1Loss", "HuberLoss", "huber_loss", "smooth_l1_loss"), _HUBER),
    **dict.fromkeys(("LeakyReLU", "leaky_relu"), "np.where(t > 0, t, 0.01 * t)"),
    **dict.fromkeys(("ELU", "elu"), "np.where(t > 0, t, np.expm1(np.minimum(t, 0)))"),
    "Softplus": "the function F.softplus",
    "LogSoftmax": "the function F.log_softmax",
    **dict.fromkeys(("Flatten", "Unflatten"), "t.reshape(shape)"),
    "Identity": "nothing, or lambda x: x",
    "Dense": "nn.Linear(d_in, d_out)",
    "ParameterList": "a list of Tensor(data, requires_grad=True)",
    "MultiheadAttention": "F.scaled_dot_product_attention between layers nn.Linear",
    **dict.fromkeys(("normalize", "cosine_similarity"), "division by np.linalg.norm(t, axis=-1, keepdims=True)"),
    **dict.fromkeys(("BatchNorm1d", "BatchNorm2d", "batch_norm", "GroupNorm"), "nn.LayerNorm, or (t - mean) / std"),
    **dict.fromkeys(
        ("Conv1d", "Conv2d", "Conv3d", "conv1d", "conv2d", "max_pool2d", "MaxPool2d", "AvgPool2d", "unfold"),
        "np.lib.stride_tricks.sliding_window_view of an input that is data, or slices, and a product with the weights",
    ),
    **dict.fromkeys(("RNN", "LSTM", "GRU"), "a loop over the steps, with layers nn.Linear"),
    **dict.fromkeys(("Transformer", "TransformerEncoder", "TransformerEncoderLayer"), "a module of such layers"),
    "init": "std= of the layer, or p.data = values",
    "utils": "optim.clip_grad_norm(parameters, limit)",
    "Adam": "optim.AdamW(parameters, weight_decay=0.0)",
    **dict.fromkeys(("adam", "adamw"), "optim.AdamW"),
    "sgd": "optim.SGD",
    **dict.fromkeys(("RMSprop", "Adagrad", "Adadelta", "LBFGS"), "optim.AdamW or optim.SGD"),
    **dict.fromkeys(
        ("StepLR", "ExponentialLR", "CosineAnnealingLR", "LambdaLR", "OneCycleLR"),
        "optimizer.lr = the rate of this step, before each step; optim.warmup_cosine gives one",
    ),
    "clip_grad_norm_": "optim.clip_grad_norm(parameters, limit)",
    "lr_scheduler": "optimizer.lr = optim.warmup_cosine(step, ...), before each step",
    "from_numpy": "ad.as_tensor(array)",
    "cat": "np.concatenate",
    "backward": "t.backward()",
    **dict.fromkeys(("randn", "rand", "normal", "uniform"), "Tensor(rng.normal(size=shape)), rng a generator"),
    "Variable": "ad.Tensor(data, requires_grad=True)",
    **dict.fromkeys(("inference_mode", "set_grad_enabled"), "ad.no_grad()"),
    **dict.fromkeys(("GradientTape", "autograd"), "y.backward(), or ad.gradients(y, x)"),
    **dict.fromkeys(("numpy", "lax", "scipy"), "NumPy itself: its functions record"),
    **dict.fromkeys(("debug_nans", "set_detect_anomaly", "config"), "ad.detect_anomaly()"),
    **dict.fromkeys(("tree_map", "tree", "tree_util"), "a loop: functions take nested lists and dicts"),
    **dict.fromkeys(("linearize", "custom_jvp"), "ad.jvp(f, primals, tangents), of ops that have @f.vjp(...)"),
    "pmap": "a loop: each call runs as it is written",
    **dict.fromkeys(("device", "devices", "cuda", "device_put", "block_until_ready"), "nothing: all is on the CPU"),
    "compile": "nothing: each call runs as it is written",
    **dict.fromkeys(("draw_dot", "make_dot"), "viz.draw_dot(y)"),
    **dict.fromkeys(("Module", "Linear", "Embedding", "LayerNorm", "Dropout"), "from autodiff import nn"),
    **dict.fromkeys(("AdamW", "SGD"), "from autodiff import optim"),
    "enable_grad": "what to differentiate, outside of ad.no_grad()",
    "manual_seed": "rng=, which whatever draws numbers takes",
    **dict.fromkeys(("jacrev", "jacfwd"), "ad.jacobian(f)"),
    "elementwise_grad": "ad.vjp(f, x)[1](np.ones_like(y))",
    "make_jvp": "ad.jvp(f, primals, tangents)",
    "make_vjp": "ad.vjp(f, x)",
    "vmap": "a batch axis: functions broadcast, as NumPy's do",
    "jit": "nothing: each call runs as it is written",
    "stop_gradient": "t.detach()",
    **dict.fromkeys(("checkpoint", "remat"), "ad.recompute(f)"),
    **dict.fromkeys(("custom_vjp", "primitive", "Function"), "@ad.op and @f.vjp(...), as in docs/writing-ops.md"),
    "Value": "ad.Tensor(data, requires_grad=True)",
}
"""What other libraries have in their modules."""


def absent(module: str, name: str, known: Iterable[str]) -> AttributeError:
    """Make the error for a name that a module of ours does not have."""
    hint = ""
    if name in _FUNCTIONS:
        hint = f" Instead: {_FUNCTIONS[name]}."
    elif not name.startswith("_"):
        ours = f"F.{name}, with import autodiff.functional as F" if name in OPS else ""
        found = ours or (f"np.{name}" if hasattr(np, name) else "")
        hint = nearest(name, known, cutoff=0.75) or (f" Instead: {found}." if found else "")
    return AttributeError(f"module {module!r} has no attribute {name!r}.{hint}")
