//! An operator that serves websites from ConfigMaps.
//!
//! A [`Website`](website::Website) names an image, a number of replicas, and a ConfigMap with its
//! pages. The operator makes of it a copy of the pages, a Deployment of web servers and a Service,
//! and enters the site in the directory of its namespace once it is served.
//!
//! Where no cluster is configured the binary starts an API server in its own process, which plays the
//! part of a cluster's controllers and kubelets, so that Deployments come to life.
//!
//! Read in this order:
//!
//! - [`website`] is the kind, as its users write it.
//! - [`children`] says what each child looks like; [`status`] says what the site's status says.
//! - [`controller`] is the reconciler and its watches: the file to read first if you read one.
//! - [`setup`] installs the kind and the sample; [`narrator`] tells what happens; [`once`] waits
//!   until every site is ready, or says why that would be in vain.

pub mod website;
pub mod children;
pub mod status;
pub mod controller;
pub mod setup;
pub mod narrator;
pub mod once;
