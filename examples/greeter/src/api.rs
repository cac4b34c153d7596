//! The kinds that the operator defines.

use steersman::definitions::Crds;
use steersman::kube_core::CustomResourceExt as _;

pub mod greeting;

/// Returns the definitions of the kinds, which the flag `--install` installs.
pub fn definitions() -> Crds {
    Crds::new().with(greeting::Greeting::crd())
}
