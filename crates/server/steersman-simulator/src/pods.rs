//! Room: the scheduler, the kubelets and the volume binder.

mod statuses;
mod container_events;
mod volume_binder;
mod pod;
pub(crate) mod owned_pods;
