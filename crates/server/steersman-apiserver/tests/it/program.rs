//! Tests of the program: with its own flags, and under the names that test environments look for.

mod binary;
mod envtest;
mod explore;
mod kills;
mod restarts;
mod stand_in;
