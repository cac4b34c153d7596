//! Tests of the tour as a program.

mod output;
