"""The commands of ``python -m autodiff``."""
