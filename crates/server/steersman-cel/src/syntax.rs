//! Room: the parser of CEL expressions, and the nodes of the syntax tree.

pub(crate) mod ast;
pub(crate) mod parse;
