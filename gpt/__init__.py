"""A decoder-only Transformer built only from the operations of `autodiff`, and its training on a laptop.

Examples
--------
>>> from gpt import GPT, GPTConfig
>>> model = GPT(GPTConfig(vocab_size=28, block_size=16, n_layer=1, n_head=2, n_embd=32), rng=0)
>>> model([[1, 2, 3]]).shape
(1, 3, 28)
"""

from gpt.config import GPTConfig
from gpt.model import GPT
from gpt.run import load
from gpt.settings import Settings
from gpt.train import train

__all__ = ["GPT", "GPTConfig", "Settings", "load", "train"]
