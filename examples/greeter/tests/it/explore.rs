//! The operator is tried with crashes, lost answers and old states: one module per kind.

mod greeting;
