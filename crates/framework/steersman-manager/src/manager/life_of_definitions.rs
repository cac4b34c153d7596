//! Handle: the CustomResourceDefinitions that the leader installs, and the controllers that wait for them.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;
use steersman_cache::Cache;
use steersman_crds::{CrdMetrics, CrdPhase, Crds};
use steersman_object::{Gvk, Kind};
use steersman_webhook::{BuiltInCertificates, WebhookServer};
use tokio::sync::OnceCell;

use super::Manager;
use crate::error::Error;
use crate::order::Group;

/// One cell per kind, which is set once a new list of all objects of the kind is complete.
type Relists = BTreeMap<Gvk, Arc<OnceCell<()>>>;

/// The conditions that the controllers of a leader wait for before they write.
#[derive(Clone)]
pub(crate) struct LeaderConditions {
    /// The CustomResourceDefinitions must be installed, because the server drops fields that it does not know.
    definitions: Crds,
    /// The server must trust the webhooks of the operator, because it refuses writes as long as it does not.
    certificates: Option<BuiltInCertificates>,
    cache: Cache,
    /// The relists of kinds with a CustomResourceDefinition that this process has changed, each made once.
    relists: Arc<Mutex<Relists>>,
}

impl LeaderConditions {
    pub(crate) fn new(definitions: Crds, webhooks: Option<&WebhookServer>, cache: Cache) -> Self {
        let certificates = webhooks.and_then(WebhookServer::built_in_certificates);
        Self {
            definitions,
            certificates: certificates.cloned(),
            cache,
            relists: Arc::default(),
        }
    }

    /// Waits until all conditions for a controller of these kinds are met. Cancel safe.
    pub(crate) async fn met(&self, kinds: &[Kind]) {
        self.definitions.confirmed().await;
        if let Some(certificates) = &self.certificates {
            certificates.usable().await;
        }
        let changed = self.definitions.changed_kinds();
        for kind in kinds.iter().filter(|kind| changed.contains(kind.gvk())) {
            self.relist(kind.gvk()).await;
        }
    }

    /// DEF-8: lists a kind again after its definition changed, once for all controllers.
    async fn relist(&self, gvk: &Gvk) {
        let relist = Arc::clone(self.relists.lock().entry(gvk.clone()).or_default());
        relist.get_or_init(|| self.cache.relist(gvk)).await;
    }
}

impl Manager {
    /// Returns the CustomResourceDefinitions that the leader installs, with their state.
    pub fn crds(&self) -> &Crds {
        &self.shared.conditions.definitions
    }

    /// Adds the tasks, the readiness check and the diagnostics of the definitions.
    pub(crate) fn add_crds(&self) -> Result<(), Error> {
        let definitions = self.crds();
        if definitions.statuses().is_empty() {
            return Ok(());
        }
        let (followed, led) = (definitions.clone(), definitions.clone());
        self.add_loop(
            "definitions",
            Group::Others,
            |client_config, stop| async move {
                followed.follow(&client_config, stop).await;
            },
        )?;
        let (name, group) = ("installation of definitions", Group::LeaderElected);
        self.add_loop(name, group, |client_config, stop| async move {
            led.lead(&client_config, stop).await;
        })?;
        // DEF-6: a CustomResourceDefinition that the server would refuse makes the manager unready.
        let checked = definitions.clone();
        self.add_ready_check("definitions", move || {
            let refused = refusals(&checked);
            async move {
                match refused.is_empty() {
                    true => Ok(()),
                    false => Err(refused.join("; ")),
                }
            }
        })?;
        let shown = definitions.clone();
        self.diagnostics().add("definitions", move || {
            let statuses = shown.statuses().into_iter().map(|status| {
                serde_json::json!({
                    "name": status.name,
                    "phase": format!("{:?}", status.phase),
                    "problem": status.problem,
                    "migrated": status.migrated,
                })
            });
            statuses.collect()
        });
        Ok(())
    }
}

/// Connects definitions with the webhooks that convert their objects: names the webhooks in the definitions, and lets
/// the built-in authority inject its certificates there.
///
/// # Errors
///
/// [`Error::Definition`] if a definition does not name its conversion and the webhooks do not know their Service.
pub(crate) fn connect_webhooks(
    definitions: Crds,
    webhooks: Option<WebhookServer>,
) -> Result<(Crds, Option<WebhookServer>), Error> {
    let Some(webhooks) = webhooks else {
        return Ok((definitions, None));
    };
    let Some(certificates) = webhooks.built_in_certificates() else {
        let kinds = webhooks.converted_kinds();
        let definitions = match webhooks.service_key() {
            Some(service) => definitions.converted_behind(&kinds, service, webhooks.ca_from()),
            None => definitions,
        };
        definitions.check_conversions(&kinds)?;
        return Ok((definitions, Some(webhooks)));
    };
    let (service, authorities) = (certificates.service(), certificates.authorities());
    let definitions = definitions.converted_by(&webhooks.converted_kinds(), service, authorities);
    let webhooks = webhooks.inject_into_crds(definitions.converted());
    Ok((definitions, Some(webhooks)))
}

pub(crate) fn with_metrics(
    definitions: Crds,
    registry: &prometheus::Registry,
) -> Result<Crds, Error> {
    if definitions.has_metrics() || definitions.statuses().is_empty() {
        return Ok(definitions);
    }
    let metrics = CrdMetrics::register(registry).map_err(Error::Metrics)?;
    Ok(definitions.metrics(metrics))
}

fn refusals(definitions: &Crds) -> Vec<String> {
    let statuses = definitions.statuses().into_iter();
    let refused = statuses.filter(|status| status.phase == CrdPhase::Refused);
    refused.filter_map(|status| status.problem).collect()
}
