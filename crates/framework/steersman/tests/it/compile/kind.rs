//! A wrong argument of a kind is named at its place in the source.
//~ Unknown field: `gruop`
//~ kind.rs:8:8

use steersman::CustomResource;

#[derive(CustomResource)]
#[kube(gruop = "web.example.com", version = "v1", kind = "Site")]
struct SiteSpec;

fn main() {}
