//! The manifests of an operator, made of what its program says about itself.
