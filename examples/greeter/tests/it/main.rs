//! Tests of the whole operator on the embedded API server.

mod explore;
mod greeting;
