//! Room: the scheduler, the kubelets and the volume binder.

mod statuses;
mod lifecycle;
mod claim;
mod pod;
pub(crate) mod pods_of;
