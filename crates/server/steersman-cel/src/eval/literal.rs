//! Machine: the values of literals.

use std::sync::Arc;

use crate::syntax::ast::Literal;
use crate::value::{Text, Value};

/// Returns the value of a literal.
pub(super) fn constant<'a>(literal: &Literal) -> Value<'a> {
    match literal {
        Literal::Null => Value::Null,
        Literal::Bool(flag) => Value::Bool(*flag),
        Literal::Int(number) => Value::Int(*number),
        Literal::Uint(number) => Value::Uint(*number),
        Literal::Double(number) => Value::Double(*number),
        Literal::Text(text) => Value::Text(Text::Made(Arc::clone(text))),
        Literal::Bytes(bytes) => Value::Bytes(Arc::clone(bytes)),
    }
}
