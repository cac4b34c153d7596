//! The kinds that the operator defines.

use steersman::definitions::Definitions;
use steersman::kube_core::CustomResourceExt as _;

pub mod greeting;

/// Returns the definitions of the kinds, which the flag `--install` installs.
pub fn definitions() -> Definitions {
    Definitions::new().with(greeting::Greeting::crd())
}
