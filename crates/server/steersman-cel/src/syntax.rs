//! Room: the grammar: the parser, and the syntax tree.

pub(crate) mod ast;
pub(crate) mod parse;
