//! Words: the table of the fuzz targets.

use crate::{protobuf, server, webhook};

/// A fuzz target: decides what the bytes of an input are, and checks what becomes of them.
#[derive(Debug, Clone, Copy)]
pub struct Target {
    /// The name of the target and of its folder in the corpus.
    pub name: &'static str,
    /// Runs the checks on an input and panics on a finding.
    pub run: fn(&[u8]),
}

/// Every target.
pub const TARGETS: [Target; 15] = [
    target("paths", server::paths),
    target("selectors", server::selectors),
    target("patches", server::patches),
    target("apply", server::apply),
    target("protobuf", server::protobuf),
    target("tokens", server::tokens),
    target("manifests", server::manifests),
    target("definitions", server::definitions),
    target("objects", protobuf::objects),
    target("lists", protobuf::lists),
    target("watches", protobuf::watches),
    target("texts", protobuf::texts),
    target("reviews", webhook::reviews),
    target("conversions", webhook::conversions),
    target("token_reviews", webhook::token_reviews),
];

impl Target {
    /// Returns the target of a name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        TARGETS.into_iter().find(|target| target.name == name)
    }
}

const fn target(name: &'static str, run: fn(&[u8])) -> Target {
    Target { name, run }
}
