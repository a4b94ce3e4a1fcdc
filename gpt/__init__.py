"""A decoder-only Transformer built only from the operations of `autodiff`."""
