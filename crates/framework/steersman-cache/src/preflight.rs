//! Driver: checks before the first list whether the server grants the permissions that the cache needs.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use futures::future::try_join_all;
use k8s_openapi::api::authorization::v1::{
    ResourceAttributes, SelfSubjectAccessReview, SelfSubjectAccessReviewSpec,
};
use k8s_openapi::api::events::v1::Event;
use steersman_api::{Api, ClientConfig, Mapper, kube_client};
use steersman_informer::Reason;
use steersman_object::Kind;

use crate::cache::Cache;
use crate::coverage::Coverage;
use crate::error::Error;
use crate::failure_advice::Advice;
use crate::informer_map::InformerKey;
use crate::preflight_report::{MissingRule, Preflight};

/// The verbs of an informer, and `get` for clients that read one object live, for example after a conflict.
const VERBS: [&str; 3] = ["get", "list", "watch"];

const EVENT_VERBS: [&str; 2] = ["create", "patch"];

/// The namespace of Events about cluster-scoped objects.
const CLUSTER_EVENTS: &str = "default";

impl Cache {
    /// Checks whether the server serves the declared kinds and whether the credentials of `client_config` permit
    /// reading them in their cached namespaces. Sends one SelfSubjectAccessReview per verb and informer, and one
    /// discovery request per group. Starts no informer.
    ///
    /// If a field selector of a kind requires `metadata.name`, the check is for that name, and a
    /// missing rule has `resourceNames`: such a rule permits a list or watch under that selector.
    ///
    /// The verbs are `list` and `watch` for informers, and `get` for live reads of one object, for
    /// example after a conflict. `get` may be missing if the program has no live reads.
    ///
    /// [`Preflight::advice`] has the missing permissions to record Kubernetes Events about the objects of the declared
    /// kinds. Not every program needs these permissions.
    ///
    /// Declared kinds are the cached kinds of the options, and the kinds that a controller, an
    /// index or [`informer`](Self::informer) declared. A missing permission is not an error: an
    /// informer may start without its rule, and recovers when the rule is granted.
    ///
    /// # Errors
    ///
    /// [`Error::Connection`], and [`Error::Preflight`] if a request fails.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: the check changes nothing on the server.
    ///
    /// # Examples
    ///
    /// ```
    /// use k8s_openapi::api::core::v1::Pod;
    /// use steersman_api::ClientConfig;
    /// use steersman_cache::{Cache, CacheOptions};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = steersman_apiserver::ApiServer::new();
    /// # let connection = ClientConfig::in_process(server.service(), "default");
    /// let cache = Cache::new(CacheOptions::new())?;
    /// cache.informer::<Pod>()?;
    /// let found = cache.preflight(&connection).await?;
    /// assert!(found.is_ready(), "{found}");
    /// # Ok(())
    /// # }
    /// ```
    pub async fn preflight(&self, client_config: &ClientConfig) -> Result<Preflight, Error> {
        let client = client_config.client().map_err(Error::Connection)?;
        let mapper = Mapper::new(client_config.clone());
        let mut found = Preflight::default();
        let mut last: Option<Kind> = None;
        let mut event_namespaces = BTreeSet::new();
        for (informer_key, advice) in self.declared_informers() {
            let kind = advice.coverage.kind();
            if last.as_ref() != Some(kind) {
                last = Some(kind.clone());
                match mapper.kind(kind.gvk()).await {
                    Ok(_) => {}
                    Err(error) if error.is_kind_not_served() => {
                        let remedy = advice.remedy(Reason::NotServed);
                        found.not_served.push((kind.clone(), remedy));
                    }
                    Err(error) => return Err(Error::Preflight(error)),
                }
            }
            let namespace = informer_key.namespace.as_deref();
            event_namespaces.insert(match kind.is_namespaced() {
                true => namespace.map(ToOwned::to_owned),
                false => Some(CLUSTER_EVENTS.to_owned()),
            });
            // CACHE-14: if the field selector requires a name, the server authorizes the requests for that name.
            let name = advice.coverage.only_name(namespace);
            let missing = missing_rule(&client, kind, namespace, name, &VERBS).await?;
            found.missing.extend(missing);
        }
        found.advice = missing_for_events(&client, event_namespaces).await?;
        Ok(found)
    }

    /// Returns the declared informers and those that reads have started, ordered by kind.
    fn declared_informers(&self) -> BTreeMap<InformerKey, Advice> {
        let mut all = BTreeMap::new();
        let mut add = |coverage: &Arc<Coverage>, namespace: Option<Arc<str>>| {
            let informer_key = InformerKey {
                gvk: coverage.kind().gvk().clone(),
                namespace: namespace.clone(),
            };
            all.insert(informer_key, self.shared.advice(coverage, namespace));
        };
        for (kind, options) in self.shared.options.objects.values() {
            if !options.is_uncached() {
                let coverage = self.shared.coverage(kind);
                for namespace in coverage.informers() {
                    add(&coverage, namespace);
                }
            }
        }
        for entry in self.shared.registry.read().entries() {
            let advice = entry.advice();
            add(&advice.coverage, advice.namespace.clone());
        }
        all
    }
}

/// Returns the missing permissions to record Events in these namespaces; `None` means all namespaces.
async fn missing_for_events(
    client: &kube_client::Client,
    mut namespaces: BTreeSet<Option<String>>,
) -> Result<Vec<MissingRule>, Error> {
    if namespaces.contains(&None) {
        namespaces.retain(Option::is_none);
    }
    let kind = Kind::of::<Event>();
    let mut missing = Vec::new();
    for namespace in namespaces {
        let namespace = namespace.as_deref();
        missing.extend(missing_rule(client, &kind, namespace, None, &EVENT_VERBS).await?);
    }
    Ok(missing)
}

/// Returns the rule for the verbs that are not allowed; `None` if all are allowed.
async fn missing_rule(
    client: &kube_client::Client,
    kind: &Kind,
    namespace: Option<&str>,
    name: Option<String>,
    verbs: &[&'static str],
) -> Result<Option<MissingRule>, Error> {
    let asked = (namespace, name.as_deref());
    let answers = verbs.iter().map(|verb| allowed(client, kind, asked, verb));
    let answers = try_join_all(answers).await.map_err(Error::Preflight)?;
    let denied = verbs.iter().zip(answers).filter(|(_, may)| !may);
    let verbs: Vec<&'static str> = denied.map(|(verb, _)| *verb).collect();
    Ok((!verbs.is_empty()).then(|| MissingRule {
        kind: kind.clone(),
        namespace: namespace.map(Into::into),
        name,
        verbs,
    }))
}

async fn allowed(
    client: &kube_client::Client,
    kind: &Kind,
    (namespace, name): (Option<&str>, Option<&str>),
    verb: &str,
) -> Result<bool, steersman_api::Error> {
    let attributes = ResourceAttributes {
        group: Some(kind.gvk().group().to_owned()),
        version: Some(kind.gvk().version().to_owned()),
        resource: Some(kind.plural().to_owned()),
        namespace: namespace.map(Into::into),
        name: name.map(Into::into),
        verb: Some(verb.to_owned()),
        ..ResourceAttributes::default()
    };
    let review = SelfSubjectAccessReview {
        spec: SelfSubjectAccessReviewSpec {
            resource_attributes: Some(attributes),
            ..SelfSubjectAccessReviewSpec::default()
        },
        ..SelfSubjectAccessReview::default()
    };
    let reviews = Api::<SelfSubjectAccessReview>::typed(client.clone());
    let answer = reviews.review(&review).await?;
    Ok(answer.status.is_some_and(|status| status.allowed))
}
