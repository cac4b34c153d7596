//! Handle: the webhooks of an operator, and the options of their server.

use std::sync::Arc;

use k8s_openapi::api::autoscaling::v1::Scale;
use kube_core::DynamicObject;
use prometheus::Registry;
use steersman_object::{Gvk, Kind, ObjectKey, TypedObject};
use steersman_serve::{
    Error as ServeError, Limits, ListenAddress, Route, Routes, ServerOptions, TlsOptions,
};

use crate::certificates::BuiltInCertificates;
use crate::conversion::Conversions;
use crate::defaulter::{Defaulter, DefaulterHandler};
use crate::endpoint::{Converter, WebhookEndpoint};
use crate::handler::{AdmissionHandler, ErasedHandler};
use crate::in_process::InProcessWebhooks;
use crate::metrics::WebhookMetrics;
use crate::path::{mutate_path, validate_path};
use crate::token_review::{self, TokenReviewer};
use crate::validator::{Validator, ValidatorHandler};

/// The server of an operator's webhooks, for `ManagerBuilder::webhooks` of the manager.
///
/// Made of an address, such as `"[::]:9443"`, the usual one. It serves HTTP/2 and HTTP/1.1 over TLS, with the
/// certificate in `tls.crt` and `tls.key` of `/tmp/k8s-webhook-server/serving-certs` unless [`tls`](Self::tls) says
/// otherwise: where kubebuilder's manifests mount the Secret of cert-manager. An empty address and `"0"` mean no
/// server.
///
/// ```
/// # use k8s_openapi::api::apps::v1::Deployment;
/// # use steersman_webhook::{AdmissionContext, Defaulter, Refusal};
/// use steersman_webhook::WebhookServer;
/// # struct Replicas;
/// # impl Defaulter<Deployment> for Replicas {
/// #     async fn default(&self, _: &mut Deployment, _: &AdmissionContext) -> Result<(), Refusal> { Ok(()) }
/// # }
///
/// let webhooks = WebhookServer::new("[::]:9443").defaulter::<Deployment>(Replicas);
/// assert_eq!(webhooks.paths(), ["/mutate-apps-v1-deployment"]);
/// ```
#[derive(Clone, derive_more::Debug)]
#[debug("WebhookServer {{ address: {address:?}, paths: {:?}, .. }}", self.paths())]
#[must_use = "webhooks answer only in a manager"]
pub struct WebhookServer {
    address: ListenAddress,
    tls: TlsOptions,
    limits: Limits,
    handlers: Vec<(String, Arc<dyn ErasedHandler>)>,
    admissions: Vec<AdmittedKind>,
    routes: Vec<Route>,
    conversions: Option<Conversions>,
    certificates: Option<BuiltInCertificates>,
    service: Option<ObjectKey>,
    ca_from: Option<ObjectKey>,
}

/// A defaulter or validator of a server, as the webhook configurations describe it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct AdmittedKind {
    /// The path of the webhook.
    pub path: String,
    /// The kind of the webhook's objects.
    pub kind: Kind,
    /// Whether the webhook may change objects: `true` for a defaulter, `false` for a validator.
    pub mutates: bool,
}

/// The largest body of an admission review in bytes, as in controller-runtime: two objects of 1.5 MB, and an envelope.
const MAX_BODY: usize = 7 << 20;
/// The largest body of a conversion review in bytes: the review of a list has all objects of the list.
const MAX_CONVERSION: usize = 256 << 20;
/// The path of the conversion webhook.
const CONVERT: &str = "/convert";
/// The directory in which kubebuilder's manifests mount the certificate.
const DIRECTORY: &str = "/tmp/k8s-webhook-server/serving-certs";
/// The largest number of open connections. An api-server that speaks HTTP/2 needs one connection.
const CONNECTIONS: usize = 1024;

impl WebhookServer {
    /// Makes the options of a server without webhooks.
    pub fn new(address: impl Into<ListenAddress>) -> Self {
        Self {
            address: address.into(),
            tls: TlsOptions::directory(DIRECTORY).http2(true),
            limits: Limits::new().max_connections(CONNECTIONS),
            handlers: Vec::new(),
            admissions: Vec::new(),
            routes: Vec::new(),
            conversions: None,
            certificates: None,
            service: None,
            ca_from: None,
        }
    }

    /// Sets the source of the certificate, and whether clients need a certificate.
    pub fn tls(mut self, tls: TlsOptions) -> Self {
        self.tls = tls;
        self
    }

    /// Uses certificates of a built-in authority; see [`BuiltInCertificates`]. The manager keeps and renews them, and
    /// injects the authority into configurations and definitions. The other TLS settings stay.
    pub fn certificates(mut self, certificates: BuiltInCertificates) -> Self {
        self.tls = self.tls.with_certificate(certificates.certificate());
        self.certificates = Some(certificates);
        self
    }

    /// Sets the limits of connections and requests.
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// Applies a function that adds webhooks, such as a function of a module.
    pub fn with(self, add: impl FnOnce(Self) -> Self) -> Self {
        add(self)
    }

    /// Adds a defaulter of a kind, at the [path](mutate_path) that kubebuilder writes into configurations.
    pub fn defaulter<K: TypedObject>(self, defaulter: impl Defaulter<K>) -> Self {
        let kind = Kind::of::<K>();
        self.admission(&kind, true, defaulter_handler::<K>(defaulter))
    }

    /// Adds a validator of a kind, at the [path](validate_path) that kubebuilder writes into configurations.
    pub fn validator<K: TypedObject>(self, validator: impl Validator<K>) -> Self {
        let kind = Kind::of::<K>();
        self.admission(&kind, false, validator_handler::<K>(validator))
    }

    /// Adds a validator of the subresource `scale` of a kind, at the path of the kind with `-scale`, such as
    /// `/validate-apps-v1-deployment-scale`.
    ///
    /// `kubectl scale` and autoscalers write that subresource: a [validator](Self::validator) of the kind does not see
    /// their changes. The name and the namespace of the object are in the metadata of the `Scale`.
    pub fn scale_validator<K: TypedObject>(self, validator: impl Validator<Scale>) -> Self {
        let kind = Kind::of::<K>();
        let path = format!("{}-scale", validate_path(kind.gvk()));
        let resource = format!("{}/scale", kind.plural());
        let kind = Kind::new(kind.gvk().clone(), resource, kind.scope());
        self.admission_at(path, &kind, false, validator_handler::<Scale>(validator))
    }

    /// Adds a defaulter for a kind that is only known at run time.
    pub fn defaulter_of(self, kind: &Kind, defaulter: impl Defaulter<DynamicObject>) -> Self {
        let handler = DefaulterHandler::new(kind.gvk().clone(), defaulter);
        self.admission(kind, true, handler)
    }

    /// Adds a validator for a kind that is only known at run time.
    pub fn validator_of(self, kind: &Kind, validator: impl Validator<DynamicObject>) -> Self {
        let handler = ValidatorHandler::new(kind.gvk().clone(), validator);
        self.admission(kind, false, handler)
    }

    fn admission(self, kind: &Kind, mutates: bool, handler: impl AdmissionHandler) -> Self {
        let path = match mutates {
            true => mutate_path(kind.gvk()),
            false => validate_path(kind.gvk()),
        };
        self.admission_at(path, kind, mutates, handler)
    }

    fn admission_at(
        self,
        path: String,
        kind: &Kind,
        mutates: bool,
        handler: impl AdmissionHandler,
    ) -> Self {
        let mut server = self.handler(path.clone(), handler);
        server.admissions.push(AdmittedKind {
            path,
            kind: kind.clone(),
            mutates,
        });
        server
    }

    /// Adds a handler at a path. A [`HandlerChain`](crate::HandlerChain) runs several handlers at one path.
    pub fn handler(mut self, path: impl Into<String>, handler: impl AdmissionHandler) -> Self {
        self.handlers.push((path.into(), Arc::new(handler)));
        self
    }

    /// Adds a webhook that reviews bearer tokens, for the option `--authentication-token-webhook-config-file` of an
    /// api-server.
    pub fn token_reviewer(self, path: impl Into<String>, reviewer: impl TokenReviewer) -> Self {
        let reviewer = Arc::new(reviewer);
        let handler = move |request| {
            let reviewer = Arc::clone(&reviewer);
            async move { token_review::review(&*reviewer, request).await }
        };
        self.route(Route::any(path, token_review::MAX_BODY, handler))
    }

    /// Adds the conversion webhook, at the path `/convert`, as in kubebuilder.
    pub fn conversions(mut self, conversions: Conversions) -> Self {
        self.conversions = Some(conversions);
        self
    }

    /// Adds another route to the server.
    pub fn route(mut self, route: Route) -> Self {
        self.routes.push(route);
        self
    }

    /// Returns the paths of all webhooks, admission webhooks first.
    pub fn paths(&self) -> Vec<String> {
        let handlers = self.handlers.iter().map(|(path, _)| path.clone());
        let routes = self.routes.iter().map(|route| route.path().to_owned());
        let conversions = self.conversions.iter().map(|_| CONVERT.to_owned());
        handlers.chain(conversions).chain(routes).collect()
    }

    /// Returns the defaulters and validators in the order of their addition, without each [`handler`](Self::handler),
    /// because its kind and purpose are unknown.
    pub fn admissions(&self) -> &[AdmittedKind] {
        &self.admissions
    }

    /// Returns the kinds that the webhooks convert, each in the version of its hub.
    pub fn converted_kinds(&self) -> Vec<Gvk> {
        let conversions = self.conversions.as_ref();
        conversions.map(Conversions::hubs).unwrap_or_default()
    }

    /// Returns the webhooks as a service in this process, for tests.
    ///
    /// # Errors
    ///
    /// [`ServeError::DuplicatePath`], [`ServeError::Path`], [`ServeError::Metrics`].
    pub fn in_process(&self) -> Result<InProcessWebhooks, ServeError> {
        // The registry is private, so these metrics are never exported.
        let metrics = WebhookMetrics::register(&Registry::new()).map_err(ServeError::Metrics)?;
        let routes = Arc::new(self.routes_with(&metrics)?);
        Ok(InProcessWebhooks { routes })
    }

    /// Returns the address on which the server listens.
    pub fn address(&self) -> &ListenAddress {
        &self.address
    }

    /// Returns the certificates of the built-in authority, if the server uses it.
    pub fn built_in_certificates(&self) -> Option<&BuiltInCertificates> {
        self.certificates.as_ref()
    }

    /// Names the Service in front of a server with certificates from files. Definitions refer to this Service as their
    /// conversion webhook. [`BuiltInCertificates`] name the Service themselves.
    pub fn service(mut self, service: ObjectKey) -> Self {
        self.service = Some(service);
        self
    }

    /// Lets cert-manager inject the authority of a `Certificate` into the definitions that refer to the
    /// [`service`](Self::service), by the annotation `cert-manager.io/inject-ca-from`. The certificate files of the
    /// server must be from the Secret of this `Certificate`.
    pub fn inject_ca_from(mut self, certificate: ObjectKey) -> Self {
        self.ca_from = Some(certificate);
        self
    }

    /// Returns the Service in front of the server, if one was named.
    pub fn service_key(&self) -> Option<&ObjectKey> {
        let built_in = self.certificates.as_ref();
        let built_in = built_in.map(BuiltInCertificates::service);
        built_in.or(self.service.as_ref())
    }

    /// Returns the `Certificate` that was set by [`inject_ca_from`](Self::inject_ca_from).
    pub fn ca_from(&self) -> Option<&ObjectKey> {
        self.ca_from.as_ref()
    }

    /// Also injects the built-in authority into the definitions with these names. Does nothing without a built-in
    /// authority.
    pub fn inject_into_crds(mut self, names: impl IntoIterator<Item = String>) -> Self {
        let inject = |certificates: BuiltInCertificates| {
            names
                .into_iter()
                .fold(certificates, BuiltInCertificates::inject_into_definition)
        };
        self.certificates = self.certificates.map(inject);
        self
    }

    /// Returns the TLS settings of the server.
    pub fn tls_options(&self) -> &TlsOptions {
        &self.tls
    }

    /// Returns the options of a server with these TLS settings.
    pub fn server_options(&self, tls: TlsOptions) -> ServerOptions {
        ServerOptions::new().tls(tls).limits(self.limits)
    }

    /// Returns the routes of all webhooks, with requests counted in `metrics`.
    ///
    /// # Errors
    ///
    /// [`ServeError::DuplicatePath`], [`ServeError::Path`].
    pub fn routes_with(&self, metrics: &WebhookMetrics) -> Result<Routes, ServeError> {
        let mut routes = Routes::new();
        for (path, handler) in &self.handlers {
            let endpoint = Arc::new(WebhookEndpoint {
                path: path.as_str().into(),
                handler: Arc::clone(handler),
                metrics: metrics.of(path),
            });
            routes.add(Route::any(path, MAX_BODY, move |request| {
                let endpoint = Arc::clone(&endpoint);
                async move { endpoint.answer(request).await }
            }))?;
        }
        if let Some(conversions) = &self.conversions {
            let converter = Arc::new(Converter {
                path: CONVERT,
                conversions: conversions.clone(),
                metrics: metrics.of(CONVERT),
            });
            routes.add(Route::any(CONVERT, MAX_CONVERSION, move |request| {
                let converter = Arc::clone(&converter);
                async move { converter.answer(request).await }
            }))?;
        }
        for route in &self.routes {
            routes.add(route.clone())?;
        }
        Ok(routes)
    }

    /// Checks the options without I/O.
    ///
    /// # Errors
    ///
    /// [`ServeError::Address`], [`ServeError::ZeroLimit`], [`ServeError::DuplicatePath`], [`ServeError::Path`];
    /// [`ServeError::Certificate`] if the options of the built-in authority cannot work; [`ServeError::Routes`] if the
    /// versions of a kind cannot be converted.
    pub fn check(&self) -> Result<(), ServeError> {
        self.address.check()?;
        ServerOptions::new().limits(self.limits).check()?;
        if let Some(certificates) = &self.certificates {
            certificates
                .check()
                .map_err(|error| ServeError::Certificate {
                    place: "the built-in authority".to_owned(),
                    problem: error.to_string(),
                })?;
        }
        let problem = self.conversions.as_ref().and_then(Conversions::problem);
        if let Some(problem) = problem {
            return Err(ServeError::Routes { problem });
        }
        self.in_process().map(drop)
    }
}

/// Makes a handler from a defaulter, for a custom path or a [`HandlerChain`](crate::HandlerChain).
pub fn defaulter_handler<K: TypedObject>(defaulter: impl Defaulter<K>) -> impl AdmissionHandler {
    DefaulterHandler::new(Kind::of::<K>().gvk().clone(), defaulter)
}

/// Makes a handler from a validator, for a custom path or a [`HandlerChain`](crate::HandlerChain).
pub fn validator_handler<K: TypedObject>(validator: impl Validator<K>) -> impl AdmissionHandler {
    ValidatorHandler::new(Kind::of::<K>().gvk().clone(), validator)
}
