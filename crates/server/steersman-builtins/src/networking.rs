//! Room: kinds of networking: Services, endpoints, Ingresses, NetworkPolicies and IP addresses.

pub(crate) mod ingress;
pub mod service;
pub(crate) mod endpoints;
pub(crate) mod network;
