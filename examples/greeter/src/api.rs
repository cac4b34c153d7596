//! The kinds that the operator defines.

use steersman::crds::Crds;
use steersman::kube_core::CustomResourceExt as _;

pub mod greeting;

/// Returns the definitions of the kinds, which the flag `--install` installs.
pub fn crds() -> Crds {
    Crds::new().with(greeting::Greeting::crd())
}
