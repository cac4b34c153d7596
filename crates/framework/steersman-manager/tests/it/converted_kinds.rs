//! Controllers of a kind that gets its conversion webhook at the start of the operator.

use kube_core::CustomResourceExt as _;
use kube_derive::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use steersman_apiserver::ApiServer;
use steersman_apiserver::faults::{Answer, Verb};
use steersman_controller::{Action, Context, Error as ReconcileError, Reconciler, Request};
use steersman_crds::{Crd, Crds};
use steersman_object::ObjectKey;
use steersman_webhook::{BoxError, Conversions, Spoke, WebhookServer};
use tokio::sync::mpsc;

use crate::world::{add, manager_of, soon, start};

const DEFINITIONS: &str = "customresourcedefinitions.apiextensions.k8s.io";

#[derive(CustomResource, Serialize, Deserialize, Clone, Debug, JsonSchema)]
#[kube(group = "web.example.com", version = "v1", kind = "Site", namespaced)]
#[kube(crates(kube_core = "::kube_core"))]
pub(crate) struct SiteSpec {
    #[serde(default)]
    host: String,
}

mod v1beta1 {
    use super::*;

    #[derive(CustomResource, Serialize, Deserialize, Clone, Debug, JsonSchema)]
    #[kube(
        group = "web.example.com",
        version = "v1beta1",
        kind = "Site",
        namespaced
    )]
    #[kube(crates(kube_core = "::kube_core"))]
    pub(crate) struct SiteSpec {
        pub(crate) domain: String,
    }
}

impl Spoke for v1beta1::Site {
    type Hub = Site;

    fn to_hub(&self) -> Result<Site, BoxError> {
        let host = self.spec.domain.clone();
        let (metadata, spec) = (self.metadata.clone(), SiteSpec { host });
        Ok(Site { metadata, spec })
    }

    fn from_hub(hub: &Site) -> Result<Self, BoxError> {
        let domain = hub.spec.host.clone();
        let (metadata, spec) = (hub.metadata.clone(), v1beta1::SiteSpec { domain });
        Ok(Self { metadata, spec })
    }
}

/// Sends the host of each Site that the controller reads.
struct TellHost(mpsc::UnboundedSender<String>);

impl Reconciler for TellHost {
    async fn reconcile(&self, ctx: &Context, request: Request) -> Result<Action, ReconcileError> {
        let site = ctx.client().get::<Site>(&request.key).await?;
        self.0.send(site.spec.host.clone())?;
        Ok(Action::done())
    }
}

/// DEF-8
#[tokio::test(start_paused = true)]
async fn controllers_see_no_object_from_before_the_conversion() {
    let server = ApiServer::new();
    let service = ObjectKey::namespaced("hooks", "converter");
    let conversions = Conversions::new().hub::<Site>().spoke::<v1beta1::Site>();
    let webhooks = WebhookServer::new("127.0.0.1:0").conversions(conversions);
    let webhooks = webhooks.in_process().unwrap();
    server.route_service_to(service.namespace().unwrap(), service.name(), webhooks);
    let mut both = Site::crd();
    let mut stored = v1beta1::Site::crd().spec.versions.remove(0);
    stored.storage = true;
    both.spec.versions[0].storage = false;
    both.spec.versions.push(stored);
    // Without a conversion, an object of one version has no field of the other version.
    server
        .install_crd(serde_json::to_value(&both).unwrap())
        .unwrap();
    let site = json!({"apiVersion": "web.example.com/v1beta1", "kind": "Site",
        "metadata": {"name": "a", "namespace": "default"}, "spec": {"domain": "example.org"}});
    server.create(site).unwrap();
    let unwritten = server
        .faults()
        .answer(Verb::Patch, DEFINITIONS, Answer::code(503));
    let definitions = Crds::new().with(Crd::new(&both).converted_by(&service));
    let manager = manager_of(&server).crds(definitions).build().unwrap();
    let (told, mut hosts) = mpsc::unbounded_channel();
    add::<Site>(&manager, TellHost(told));
    let started = start(&manager);
    let informer = manager.cache().informer::<Site>().unwrap();
    soon(informer.wait_for_sync()).await.unwrap();
    let cached = informer.store().list().remove(0);
    assert_eq!(cached.spec.host, "", "the informer has an object of before");
    // A real server ends the watches of a changed definition only after a while.
    server.faults().silence_watches();
    drop(unwritten);
    assert_eq!(soon(hosts.recv()).await.unwrap(), "example.org");
    started.stop().await.unwrap();
    assert!(hosts.try_recv().is_err());
}
