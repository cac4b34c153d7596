//! Words: the table of the fuzz targets.

use crate::protobuf;
#[cfg(feature = "http")]
use crate::{server, webhook};

/// A fuzz target: decides what the bytes of an input are, and checks what becomes of them.
#[derive(Debug, Clone, Copy)]
pub struct Target {
    /// The name of the target and of its folder in the corpus.
    pub name: &'static str,
    /// Runs the checks on an input and panics on a finding.
    pub run: fn(&[u8]),
}

/// The targets of the protobuf encoding.
const PROTOBUF: &[Target] = &[
    target("objects", protobuf::objects),
    target("lists", protobuf::lists),
    target("watches", protobuf::watches),
    target("texts", protobuf::texts),
];

/// The targets of the API server and of webhooks.
#[cfg(feature = "http")]
const HTTP: &[Target] = &[
    target("paths", server::paths),
    target("selectors", server::selectors),
    target("patches", server::patches),
    target("apply", server::apply),
    target("protobuf", server::protobuf),
    target("tokens", server::tokens),
    target("manifests", server::manifests),
    target("definitions", server::definitions),
    target("reviews", webhook::reviews),
    target("conversions", webhook::conversions),
    target("token_reviews", webhook::token_reviews),
];
#[cfg(not(feature = "http"))]
const HTTP: &[Target] = &[];

impl Target {
    /// Returns every target.
    pub fn all() -> impl Iterator<Item = Self> {
        PROTOBUF.iter().chain(HTTP).copied()
    }

    /// Returns the target of a name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::all().find(|target| target.name == name)
    }
}

const fn target(name: &'static str, run: fn(&[u8])) -> Target {
    Target { name, run }
}
