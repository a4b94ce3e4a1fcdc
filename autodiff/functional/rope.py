"""To be written."""

__all__: list[str] = []
