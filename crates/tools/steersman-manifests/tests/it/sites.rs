//! A program with everything that implies rules: a kind with two versions, a cluster-scoped kind, webhooks, a desired
//! set, finalizers, statuses and Events.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube_core::CustomResourceExt as _;
use kube_core::crd::merge_crds;
use kube_derive::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use steersman_cli::Program;
use steersman_controller::{
    Action, CleanUp, Context, Controller, Error, Finalized, Finalizers, Reconciler, Request,
};
use steersman_crds::Crds;
use steersman_desired::{Child, DesiredSet};
use steersman_object::ObjectKey;
use steersman_webhook::{
    AdmissionContext, BoxError, Conversions, Defaulter, Refusal, Spoke, Validator,
};

/// The spec of a site: the names of its pages.
#[derive(CustomResource, Serialize, Deserialize, Clone, Debug, JsonSchema)]
#[kube(group = "example.com", version = "v1", kind = "Site", namespaced)]
#[kube(status = "Published", crates(kube_core = "kube_core"))]
pub(crate) struct SiteSpec {
    pub(crate) pages: Vec<String>,
}

/// The status of both kinds.
#[derive(Serialize, Deserialize, Clone, Debug, Default, PartialEq, JsonSchema)]
pub(crate) struct Published {
    pub(crate) pages: usize,
}

/// A cluster-scoped kind.
#[derive(CustomResource, Serialize, Deserialize, Clone, Debug, JsonSchema)]
#[kube(
    group = "example.com",
    version = "v1",
    kind = "Region",
    status = "Published"
)]
#[kube(crates(kube_core = "kube_core"))]
pub(crate) struct RegionSpec {}

/// The former version of a site, with only one page.
pub(crate) mod v1alpha1 {
    use super::*;

    #[derive(CustomResource, Serialize, Deserialize, Clone, Debug, JsonSchema)]
    #[kube(group = "example.com", version = "v1alpha1", kind = "Site", namespaced)]
    #[kube(status = "Published", crates(kube_core = "kube_core"))]
    pub(crate) struct SiteSpec {
        pub(crate) page: String,
    }
}

impl Spoke for v1alpha1::Site {
    type Hub = Site;

    fn to_hub(&self) -> Result<Site, BoxError> {
        let pages = vec![self.spec.page.clone()];
        Ok(Site {
            metadata: self.metadata.clone(),
            spec: SiteSpec { pages },
            status: self.status.clone(),
        })
    }

    fn from_hub(hub: &Site) -> Result<Self, BoxError> {
        let page = hub.spec.pages.first().cloned().unwrap_or_default();
        Ok(Self {
            metadata: hub.metadata.clone(),
            spec: v1alpha1::SiteSpec { page },
            status: hub.status.clone(),
        })
    }
}

/// A validator that accepts every site.
struct Lenient;

impl Defaulter<Site> for Lenient {
    async fn default(&self, _: &mut Site, _: &AdmissionContext) -> Result<(), Refusal> {
        Ok(())
    }
}

impl Validator<Site> for Lenient {
    async fn validate_create(&self, _: &Site, _: &AdmissionContext) -> Result<(), Refusal> {
        Ok(())
    }

    async fn validate_update(
        &self,
        _: &Site,
        _: &Site,
        _: &AdmissionContext,
    ) -> Result<(), Refusal> {
        Ok(())
    }
}

/// A reconciler that keeps a ConfigMap for each page of a site.
struct Sites {
    finalizers: Finalizers<Site>,
}

impl Reconciler for Sites {
    async fn reconcile(&self, ctx: &Context, request: Request) -> Result<Action, Error> {
        let client = ctx.client();
        let Some(site) = client.get_opt::<Site>(&request.key).await? else {
            return Ok(Action::done());
        };
        let site = match self.finalizers.run(ctx, site).await? {
            Finalized::Live(site) => site,
            Finalized::Leaving(action) => return Ok(action),
        };
        apply(ctx, &site, &site.spec.pages).await?;
        ctx.events()
            .normal(&*site, "Published", "Publish", "the pages are published");
        let pages = site.spec.pages.len();
        let report = |site: &mut Site| site.status = Some(Published { pages });
        client.status().modify(&*site, report).await?;
        Ok(Action::done())
    }
}

/// Applies a ConfigMap for each of these pages, and prunes all others.
async fn apply(ctx: &Context, site: &Site, pages: &[String]) -> Result<(), Error> {
    let mut set = DesiredSet::new(site, "example.com/pages").owns::<ConfigMap>();
    for page in pages {
        let data = BTreeMap::from([("page".to_owned(), page.clone())]);
        set.add(Child::of(&ConfigMap {
            metadata: ObjectKey::namespaced(request_namespace(site), page).to_meta(),
            data: Some(data),
            ..ConfigMap::default()
        }));
    }
    Ok(set.apply(ctx.client()).await?.into_result()?)
}

fn request_namespace(site: &Site) -> &str {
    site.metadata.namespace.as_deref().unwrap_or_default()
}

struct Regions;

impl Reconciler for Regions {
    async fn reconcile(&self, ctx: &Context, request: Request) -> Result<Action, Error> {
        let client = ctx.client();
        let Some(region) = client.get_opt::<Region>(&request.key).await? else {
            return Ok(Action::done());
        };
        ctx.events()
            .normal(&*region, "Open", "Open", "the region is open");
        let report = |region: &mut Region| region.status = Some(Published { pages: 1 });
        client.status().modify(&*region, report).await?;
        Ok(Action::done())
    }
}

/// Returns the definition of sites with both versions; the newest is stored.
fn sites() -> CustomResourceDefinition {
    merge_crds(vec![v1alpha1::Site::crd(), Site::crd()], "v1").unwrap()
}

pub(crate) fn program() -> Program {
    // There is only one API server, so a migration does not have to wait.
    let definitions = Crds::new()
        .with(sites())
        .with(Region::crd())
        .settle(Duration::ZERO);
    Program::new("sites", "1.2.3")
        .crds(definitions)
        .webhooks(|server, _| {
            let server = server.defaulter::<Site>(Lenient).validator::<Site>(Lenient);
            let conversions = Conversions::new().hub::<Site>();
            server.conversions(conversions.spoke::<v1alpha1::Site>())
        })
        .setup(|manager, _| {
            let clean_up = |site: Arc<Site>, ctx: Context| async move {
                apply(&ctx, &site, &[]).await?;
                Ok(CleanUp::Done)
            };
            let finalizers = Finalizers::new().add("example.com/pages", clean_up);
            let sites = Controller::builder::<Site>().owns::<ConfigMap>();
            manager.add_controller(sites.build(Sites { finalizers })?)?;
            let regions = Controller::builder::<Region>().build(Regions)?;
            Ok(manager.add_controller(regions)?)
        })
}
