//! Admission and conversion webhooks of an operator.
//!
//! ```
//! use k8s_openapi::api::apps::v1::Deployment;
//! use steersman_webhook::{AdmissionContext, Defaulter, Refusal, WebhookServer};
//!
//! /// Gives each Deployment two replicas if its author names no number.
//! struct Replicas;
//!
//! impl Defaulter<Deployment> for Replicas {
//!     async fn default(&self, object: &mut Deployment, _: &AdmissionContext) -> Result<(), Refusal> {
//!         object.spec.get_or_insert_default().replicas.get_or_insert(2);
//!         Ok(())
//!     }
//! }
//!
//! let webhooks = WebhookServer::new("[::]:9443").defaulter::<Deployment>(Replicas);
//! assert_eq!(webhooks.paths(), ["/mutate-apps-v1-deployment"]);
//! ```
//!
//! A [`WebhookServer`] has a [`Defaulter`] or a [`Validator`] per kind, and [`AdmissionHandler`]s for everything else.
//! A manager runs it: it starts before the caches, and the operator is ready once the server answers.
//!
//! - A defaulter changes only what it means to change: fields that its Rust type does not have are kept.
//! - A [`Refusal`] is made from any error by `?`. [`FieldErrors`] words the errors of fields as the API server does.
//! - Each review gets one response: a body that cannot be read, a panic and a missed deadline are answers, too.
//! - [`WebhookServer::in_process`] answers without sockets and certificates, for tests.
//!
//! # Reading order
//!
//! - [`request`] has [`AdmissionRequest`] and [`Operation`].
//! - [`field_errors`] has [`FieldErrors`], [`refusal`] [`Refusal`], and [`response`] [`AdmissionResponse`].
//! - [`path`] has the paths of kubebuilder.
//! - `timeout`, `review` and `unknown_fields` decide: the time of a request, the form of an AdmissionReview, and the
//!   patch of a defaulter, which puts the changes of a typed object into the JSON that arrived.
//! - [`conversion`] has [`Conversions`] and [`Spoke`]: `conversion::versions` converts an object between versions,
//!   `conversion::kept_fields` keeps the fields that one of them cannot hold, and `conversion::steps` has the steps
//!   that `steersman-derive` generates.
//! - [`context`] has [`AdmissionContext`].
//! - [`handler`] has [`AdmissionHandler`].
//! - `typed` decodes the objects of a request; [`defaulter`] and [`validator`] have the typed webhooks.
//! - [`chain`] has [`HandlerChain`].
//! - [`metrics`] has [`WebhookMetrics`].
//! - `endpoint` answers the requests of one path.
//! - [`token_review`] has [`TokenReviewer`].
//! - [`in_process`] has [`InProcessWebhooks`].
//! - [`certificates`] has [`BuiltInCertificates`], an authority in a Secret: `steersman_certificates` decides its next
//!   step, `certificates::leader` carries that step out, and `certificates::follower` hands the certificate to the
//!   server.
//! - [`server`] has [`WebhookServer`], the webhooks of an operator with their paths.

pub mod request;
pub mod field_errors;
pub mod refusal;
pub mod response;
pub mod path;
mod timeout;
mod review;
mod unknown_fields;
pub mod conversion;
pub mod context;
pub mod handler;
mod typed;
pub mod defaulter;
pub mod validator;
pub mod chain;
pub mod metrics;
mod endpoint;
pub mod token_review;
pub mod in_process;
pub mod certificates;
pub mod server;

pub use certificates::{
    AuthoritiesReceiver, AuthorityMetrics, BuiltInCertificates, CertificateReport,
    InvalidCertificates,
};
pub use chain::HandlerChain;
pub use context::AdmissionContext;
pub use conversion::{BoxError, ConversionError, Conversions, Spoke};
pub use defaulter::Defaulter;
pub use field_errors::FieldErrors;
pub use handler::AdmissionHandler;
pub use in_process::InProcessWebhooks;
pub use metrics::WebhookMetrics;
pub use path::{mutate_path, validate_path};
pub use refusal::Refusal;
pub use request::{AdmissionRequest, Operation};
pub use response::AdmissionResponse;
pub use server::{AdmittedKind, WebhookServer, defaulter_handler, validator_handler};
pub use steersman_serve::{CertificateState, CertificateTimes};
pub use token_review::{TokenDecision, TokenReviewer};
pub use validator::Validator;
