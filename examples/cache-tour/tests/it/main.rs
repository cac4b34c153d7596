//! The tour as somebody sees it who takes it.

mod output;
