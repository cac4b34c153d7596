//! Room: the controllers that act within requests, and the objects written at the start.

mod accounts;
mod roles;
mod garbage;
mod terminate;
mod lifecycle;
mod standard;
mod furnish;
