//! Driver: new webhooks for each input, and requests to them.

use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt, Full};
use k8s_openapi::api::authentication::v1::UserInfo;
use kube_core::DynamicObject;
use serde_json::Value;
use steersman_object::{Gvk, Kind, Scope};
use steersman_webhook::{
    AdmissionContext, AdmissionResponse, BoxError, Conversions, Defaulter, FieldErrors,
    HandlerChain, InProcessWebhooks, Refusal, TokenDecision, TokenReviewer, Validator,
    WebhookServer,
};
use tokio::runtime::Runtime;
use tower::ServiceExt;

use super::kinds::{AlphaShop, BetaShop, Page, Shop, Site};

/// The paths of the admission webhooks.
pub(crate) const DEFAULTER: &str = "/mutate-example-com-v1-site";
pub(crate) const VALIDATOR: &str = "/validate-example-com-v1-site";
pub(crate) const DYNAMIC_DEFAULTER: &str = "/mutate-example-com-v1-thing";
pub(crate) const CHAIN: &str = "/chain";
/// The path of the token reviewer.
pub(crate) const AUTHENTICATE: &str = "/authenticate";

/// The label that both defaulters set.
pub(crate) const LABEL: (&str, &str) = ("example.com/defaulted", "yes");

/// The page that [`SiteChange::InsertPage`] inserts.
pub(crate) const INDEX: &str = "index";

/// What the defaulter of sites changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SiteChange {
    /// Sets the label, the replicas, the header `x`, and the title of each page, where they are missing.
    SetFields,
    /// Inserts a page before all others, unless it is there.
    InsertPage,
    RemovePage,
    ReversePages,
}

/// Webhooks and the runtime of their requests. The clock is paused, so waits take no real time.
pub(crate) struct Webhooks {
    runtime: Runtime,
    service: InProcessWebhooks,
}

struct SiteDefaulter(SiteChange);

struct LabelDefaulter;

struct SiteValidator;

struct NamedUsers;

impl Webhooks {
    /// Creates webhooks with a defaulter that makes this change.
    #[expect(clippy::expect_used, reason = "no input makes this fail")]
    pub(crate) fn new(change: SiteChange) -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .expect("a runtime without threads or sockets needs nothing of the system");
        let thing = Gvk::new("example.com", "v1", "Thing");
        let thing = Kind::new(thing, "things", Scope::Namespaced);
        let chain = HandlerChain::new()
            .then(|ctx: AdmissionContext| async move {
                let request = ctx.request();
                // A handler that waits is polled beside its deadline.
                tokio::task::yield_now().await;
                replaced(request.object.as_ref(), request.old_object.as_ref())
            })
            .then(|ctx: AdmissionContext| async move {
                let request = ctx.request();
                let response = replaced(request.object.as_ref(), Some(&request.options));
                response.audit_annotation("name", &request.name)
            });
        let service = WebhookServer::new("0")
            .defaulter::<Site>(SiteDefaulter(change))
            .validator::<Site>(SiteValidator)
            .defaulter_of(&thing, LabelDefaulter)
            .handler(CHAIN, chain)
            .conversions(conversions())
            .token_reviewer(AUTHENTICATE, NamedUsers)
            .in_process()
            .expect("the paths are different");
        Self { runtime, service }
    }

    /// Posts a body as JSON, and returns the JSON of the response; `None` if the input is not a valid request.
    ///
    /// # Panics
    /// If the response is not a 200 with JSON.
    pub(crate) fn post(&self, path: &str, query: &str, body: &[u8]) -> Option<Value> {
        let request = Request::post(format!("{path}?{query}"))
            .header("content-type", "application/json")
            .body(Full::new(Bytes::copy_from_slice(body)))
            .ok()?;
        self.runtime.block_on(async {
            let Ok(response) = self.service.clone().oneshot(request).await;
            let status = response.status();
            let Ok(body) = response.into_body().collect().await;
            let text = String::from_utf8_lossy(&body.to_bytes()).into_owned();
            assert_eq!(status, 200, "{path}: {text}");
            let answer = serde_json::from_str(&text);
            Some(answer.unwrap_or_else(|error| panic!("{path}: {error}: {text}")))
        })
    }
}

/// Checks that a response has the kind and the version of its review. An unknown version counts as `v1`.
pub(crate) fn check_kind(sent: &Value, answer: &Value, group: &str, kind: &str) {
    let is_beta = sent["apiVersion"] == format!("{group}/v1beta1");
    let version = if is_beta { "v1beta1" } else { "v1" };
    let api_version = format!("{group}/{version}");
    assert_eq!(answer["apiVersion"], api_version, "{answer}");
    assert_eq!(answer["kind"], kind, "{answer}");
}

pub(crate) fn conversions() -> Conversions {
    Conversions::new()
        .hub::<Shop>()
        .spoke::<BetaShop>()
        .spoke::<AlphaShop>()
}

/// Replaces an object by any other value. An absent value counts as null.
fn replaced(original: Option<&Value>, changed: Option<&Value>) -> AdmissionResponse {
    let [original, changed] = [original, changed].map(|value| value.unwrap_or(&Value::Null));
    AdmissionResponse::patched_between(original, changed)
}

impl Defaulter<Site> for SiteDefaulter {
    async fn default(&self, site: &mut Site, _: &AdmissionContext) -> Result<(), Refusal> {
        let spec = &mut site.spec;
        match self.0 {
            SiteChange::SetFields => {
                let labels = site.metadata.labels.get_or_insert_default();
                labels.insert(LABEL.0.to_owned(), LABEL.1.to_owned());
                spec.replicas.get_or_insert(2);
                let header = spec.headers.entry("x".to_owned());
                header.or_insert_with(|| Some("1".to_owned()));
                for page in &mut spec.pages {
                    page.title.get_or_insert_with(|| "untitled".to_owned());
                }
            }
            SiteChange::InsertPage if spec.pages.iter().any(|page| page.name == INDEX) => {}
            SiteChange::InsertPage => {
                let (name, title) = (INDEX.to_owned(), None);
                spec.pages.insert(0, Page { name, title });
            }
            SiteChange::RemovePage => {
                spec.pages.drain(..spec.pages.len().min(1));
            }
            SiteChange::ReversePages => spec.pages.reverse(),
        }
        Ok(())
    }
}

impl Defaulter<DynamicObject> for LabelDefaulter {
    async fn default(
        &self,
        object: &mut DynamicObject,
        _: &AdmissionContext,
    ) -> Result<(), Refusal> {
        let labels = object.metadata.labels.get_or_insert_default();
        labels.insert(LABEL.0.to_owned(), LABEL.1.to_owned());
        Ok(())
    }
}

impl Validator<Site> for SiteValidator {
    async fn validate_create(&self, new: &Site, ctx: &AdmissionContext) -> Result<(), Refusal> {
        ctx.warn(new.spec.host.as_str());
        let mut errors = FieldErrors::new();
        if new.spec.replicas.is_some_and(|replicas| replicas > 99) {
            errors.invalid("spec.replicas", &new.spec.replicas, "too many");
        }
        for page in &new.spec.pages {
            if page.title.is_none() {
                errors.duplicate("spec.pages", page);
            }
        }
        if errors.is_empty() {
            return Ok(());
        }
        let name = new.metadata.name.as_deref().unwrap_or_default();
        Err(Refusal::invalid(&ctx.request().kind, name, &errors))
    }

    async fn validate_update(
        &self,
        old: &Site,
        new: &Site,
        ctx: &AdmissionContext,
    ) -> Result<(), Refusal> {
        if old.spec.host != new.spec.host {
            let host = &old.spec.host;
            return Err(Refusal::denied(format_args!("{host} is the host")));
        }
        self.validate_create(new, ctx).await
    }
}

impl TokenReviewer for NamedUsers {
    async fn review(&self, token: &str, audiences: &[String]) -> Result<TokenDecision, BoxError> {
        match token.split_once(':') {
            Some(("user", name)) => Ok(TokenDecision::Authenticated {
                user: UserInfo {
                    username: Some(name.to_owned()),
                    groups: Some(vec![name.to_owned()]),
                    ..UserInfo::default()
                },
                audiences: audiences.to_vec(),
            }),
            Some(("error", text)) => Err(text.into()),
            _ => Ok(TokenDecision::Refused),
        }
    }
}
