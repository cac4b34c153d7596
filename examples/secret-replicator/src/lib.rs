//! An operator that copies Secrets into other namespaces.
//!
//! A Secret with the label `replicate.example.com/role=source` names namespaces in its annotation
//! `replicate.example.com/namespaces`. A namespace receives copies if it has the label
//! `replicate.example.com/accept=true`: the owner of a namespace decides what is written into it.
//!
//! The cache holds the metadata of sources and copies, and no data. The operator reads the data from the
//! server when it writes a copy, or when the version of a copy is not the one that it left.
//!
//! The modules in reading order:
//!
//! - [`names`] has the labels and annotations.
//! - `plan` decides which copies are missing, wanted or surplus; `copy` makes a copy;
//!   `checked` remembers the copies that need no look.
//! - [`controller`] is the reconciler with its watches, and the file to read if you read only one.
//! - [`demo`] runs it on an embedded API server.

pub mod names;
mod plan;
mod copy;
mod checked;
pub mod controller;
pub mod demo;
