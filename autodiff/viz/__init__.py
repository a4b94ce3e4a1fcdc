"""Pictures of computation graphs."""

from .dot import draw_dot

__all__ = ["draw_dot"]
