//! Tests the permissions of an operator: as a role, in the file of observed permissions, and enforced by a server.

use std::path::Path;
use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube_core::CustomResourceExt as _;
use kube_derive::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use steersman_api::ClientConfig;
use steersman_client::finalizer::{self, FinalizerStage};
use steersman_controller::{Action, Context, Controller, Error, Reconciler, Request};
use steersman_harness::{HarnessError, OperatorTest, Prepared, RunningOperator};
use steersman_manager::Manager;
use steersman_object::ObjectKey;
use steersman_testenv::apiserver::{ApiServer, manifests};
use steersman_testenv::{TestEnv, eventually};
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

use crate::BoxError;

const FINALIZER: &str = "example.com/site";

/// A site. Its page is in a ConfigMap.
#[derive(CustomResource, Serialize, Deserialize, Clone, Debug, Default, JsonSchema)]
#[kube(
    group = "example.com",
    version = "v1",
    kind = "Site",
    namespaced,
    status = "SiteStatus",
    crates(kube_core = "kube_core")
)]
struct SiteSpec {
    text: String,
}

/// The status of a site.
#[derive(Serialize, Deserialize, Clone, Debug, Default, PartialEq, JsonSchema)]
struct SiteStatus {
    served: bool,
}

/// A reconciler that applies the ConfigMap of a site, and deletes it with the site.
struct SiteReconciler;

impl Reconciler for SiteReconciler {
    async fn reconcile(&self, ctx: &Context, request: Request) -> Result<Action, Error> {
        let client = ctx.client();
        let Some(site) = client.get_opt::<Site>(&request.key).await? else {
            return Ok(Action::done());
        };
        let site = match finalizer::stage(&*site, FINALIZER) {
            FinalizerStage::Missing => client.add_finalizer(&*site, FINALIZER).await?.into_object(),
            FinalizerStage::Held => site,
            FinalizerStage::CleanUp => {
                client.delete_key::<ConfigMap>(&request.key).await?;
                client.remove_finalizer(&*site, FINALIZER).await?;
                return Ok(Action::done());
            }
            FinalizerStage::Released => return Ok(Action::done()),
        };
        // The Secret does not exist, but reading it needs the permission.
        client.live().get_opt::<Secret>(&request.key).await?;
        let mut page = ConfigMap {
            metadata: request.key.to_meta(),
            ..ConfigMap::default()
        };
        page.data = Some([("index.html".to_owned(), site.spec.text.clone())].into());
        client.apply(&page).if_changed().await?;
        let served = |site: &mut Site| site.status = Some(SiteStatus { served: true });
        client.status().modify(&*site, served).await?;
        Ok(Action::done())
    }
}

fn declare(manager: &Manager) -> Result<(), BoxError> {
    let controller = Controller::builder::<Site>()
        .owns::<ConfigMap>()
        .build(SiteReconciler)?;
    Ok(manager.add_controller(controller)?)
}

fn site(key: &ObjectKey) -> Site {
    let spec = SiteSpec {
        text: "roses".to_owned(),
    };
    let mut site = Site::new("home", spec);
    site.metadata = key.to_meta();
    site
}

const ROLE: &str = r#"apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  name: site-operator
rules:
- apiGroups: [""]
  resources: [configmaps]
  verbs: [list, watch, create, patch, delete]
- apiGroups: [""]
  resources: [secrets]
  verbs: [get]
- apiGroups: [example.com]
  resources: [sites]
  verbs: [list, watch, patch]
- apiGroups: [example.com]
  resources: [sites/status]
  verbs: [patch]
"#;

/// Runs the operator until a site was served and deleted.
async fn served_and_deleted(test: OperatorTest) -> RunningOperator {
    let create = |prepared: Prepared| async move {
        prepared
            .client()
            .create(&site(&prepared.key("home")))
            .await?;
        Ok(())
    };
    let test = test.crd_of::<Site>().before_start(create);
    let mut operator = test.start().await.unwrap();
    operator.tick_until_steady(100).await.unwrap();
    let key = operator.key("home");
    let home: Site = operator.client().live().get(&key).await.unwrap();
    assert_eq!(home.status, Some(SiteStatus { served: true }));
    operator.client().delete(&home).await.unwrap();
    operator.tick_until_steady(100).await.unwrap();
    assert!(
        operator
            .client()
            .live()
            .get_opt::<Site>(&key)
            .await
            .unwrap()
            .is_none()
    );
    operator
}

#[tokio::test(start_paused = true)]
async fn the_role_has_what_the_operator_asked_for() {
    let operator = served_and_deleted(OperatorTest::declared(declare)).await;
    assert_eq!(operator.rbac_needed("site-operator").unwrap(), ROLE);
    assert_eq!(operator.env().rbac_needed("site-operator").unwrap(), ROLE);
    operator.stop().await.unwrap();
}

/// Runs the operator under a role while a site is created and deleted. Returns the first refused request; `None` if the
/// site was served and is gone.
async fn run_under(role: &Value) -> Option<String> {
    let env = TestEnv::in_process();
    env.install_crds(&[serde_json::to_value(Site::crd()).unwrap()])
        .await
        .unwrap();
    let server = env.server().unwrap().clone();
    server.apply(role, "test").unwrap();
    let user = env.user("system:serviceaccount:default:site-operator");
    let user = user
        .bind_everywhere("site-operator")
        .create()
        .await
        .unwrap();
    let client_config = ClientConfig::in_process(user.service().unwrap(), "default");
    let clock = server.clone();
    let manager = Manager::builder(client_config)
        .clock(move || clock.now())
        .build()
        .unwrap();
    declare(&manager).unwrap();
    let stop = CancellationToken::new();
    let running = tokio::spawn(manager.start(stop.clone()));

    let mut home = serde_json::to_value(site(&ObjectKey::namespaced("default", "home"))).unwrap();
    home["apiVersion"] = json!("example.com/v1");
    home["kind"] = json!("Site");
    server.create(home).unwrap();
    let refused = |server: &ApiServer| {
        let refused = server
            .requests()
            .matching(|record| record.status == Some(403));
        refused.first().map(ToString::to_string)
    };
    let look = |is_done: fn(Option<Value>) -> bool| {
        let home = server.get("sites.example.com", "default", "home");
        match (refused(&server), is_done(home.clone())) {
            (Some(request), _) => Ok(Some(request)),
            (None, true) => Ok(None),
            (None, false) => Err(format!("{home:?}")),
        }
    };
    let is_served = |home: Option<Value>| home.is_some_and(|home| home["status"]["served"] == true);
    let mut found = eventually("the served site", || async { look(is_served) })
        .await
        .unwrap();
    if found.is_none() {
        server
            .delete("sites.example.com", "default", "home")
            .unwrap();
        let is_gone = |home: Option<Value>| home.is_none();
        found = eventually("the end of the site", || async { look(is_gone) })
            .await
            .unwrap();
    }
    stop.cancel();
    let ended = tokio::time::timeout(Duration::from_secs(60), running)
        .await
        .unwrap()
        .unwrap();
    if found.is_none() {
        ended.unwrap();
    }
    found
}

/// Parses the YAML of a role.
fn parsed(role: &str) -> Value {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("role.yaml");
    std::fs::write(&path, role).unwrap();
    manifests::read(&path).unwrap().remove(0).object
}

/// Returns variants of the role, each without one rule or one verb, and with the resource that it concerns.
fn smaller_roles(role: &Value) -> Vec<(String, Value)> {
    let mut smaller = Vec::new();
    for (at, rule) in role["rules"].as_array().unwrap().iter().enumerate() {
        let resource = rule["resources"][0].as_str().unwrap().to_owned();
        let mut without_rule = role.clone();
        without_rule["rules"].as_array_mut().unwrap().remove(at);
        smaller.push((resource.clone(), without_rule));
        let verbs = rule["verbs"].as_array().unwrap();
        for (verb_at, verb) in verbs.iter().enumerate() {
            // `list` is kept: the operator lists by a watch on this server, and by a list on others.
            if verbs.len() > 1 && verb != "list" {
                let mut without_verb = role.clone();
                without_verb["rules"][at]["verbs"]
                    .as_array_mut()
                    .unwrap()
                    .remove(verb_at);
                smaller.push((resource.clone(), without_verb));
            }
        }
    }
    smaller
}

#[tokio::test(start_paused = true)]
async fn the_operator_works_under_the_role_and_under_no_smaller_one() {
    let role = parsed(ROLE);
    assert_eq!(run_under(&role).await, None);
    let smaller = smaller_roles(&role);
    assert_eq!(smaller.len(), 10);
    for (resource, role) in smaller {
        let refused = run_under(&role).await;
        let (resource, subresource) = resource.split_once('/').unwrap_or((&resource, ""));
        let is_named =
            |refused: &String| refused.contains(resource) && refused.contains(subresource);
        assert!(
            refused.as_ref().is_some_and(is_named),
            "{refused:?} without {resource} in {role}"
        );
    }
}

/// HARNESS-4: the file of observed permissions only gains permissions.
#[tokio::test(start_paused = true)]
async fn a_stopped_operator_adds_its_permissions_to_the_file() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("rbac.observed.yaml");
    std::fs::write(
        &path,
        "rules:\n- apiGroups: [\"\"]\n  resources: [secrets]\n  verbs: [list]\n",
    )
    .unwrap();
    let operator = served_and_deleted(OperatorTest::declared(declare).observe_rbac(&path)).await;
    assert!(
        !text(&path).contains("sites"),
        "nothing is written before the stop"
    );
    operator.stop().await.unwrap();
    let (_, rules) = ROLE.split_once("rules:\n").unwrap();
    let rules = rules.replace("verbs: [get]", "verbs: [get, list]");
    let written = text(&path);
    assert!(
        written.starts_with("# The permissions that the operator asked for"),
        "{written}"
    );
    assert!(written.ends_with(&format!("rules:\n{rules}")), "{written}");
}

/// HARNESS-4: the file of observed permissions only gains permissions.
#[tokio::test(start_paused = true)]
async fn a_test_that_ends_without_stop_adds_nothing() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("rbac.observed.yaml");
    drop(served_and_deleted(OperatorTest::declared(declare).observe_rbac(&path)).await);
    assert!(!path.exists());
}

/// HARNESS-4: the file of observed permissions only gains permissions.
#[tokio::test(start_paused = true)]
async fn a_broken_file_of_permissions_fails_the_stop_and_stays() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("rbac.observed.yaml");
    std::fs::write(&path, "rules:\n- verbs: [get]\n  names: [a]\n").unwrap();
    let operator = OperatorTest::declared(declare)
        .crd_of::<Site>()
        .observe_rbac(&path);
    let error = operator.start().await.unwrap().stop().await.unwrap_err();
    assert!(matches!(error, HarnessError::RbacSyntax { .. }), "{error}");
    let shown = error.to_string();
    assert!(
        shown.contains("rbac.observed.yaml: ") && shown.contains("line 3"),
        "{shown}"
    );
    assert_eq!(text(&path), "rules:\n- verbs: [get]\n  names: [a]\n");
}

#[tokio::test(start_paused = true)]
async fn requests_before_the_start_and_for_another_user_are_left_out() {
    let env = TestEnv::in_process();
    let server = env.server().unwrap().clone();
    let ann = env
        .user("ann")
        .allow(["get"], ["pods"])
        .create()
        .await
        .unwrap();
    let before = ClientConfig::in_process(server.service(), "default");
    let read = async |client_config: ClientConfig| {
        let cache = steersman_cache::Cache::new(steersman_cache::CacheOptions::new()).unwrap();
        let client = steersman_client::Client::new(cache, client_config);
        let key = ObjectKey::namespaced("default", "a");
        let found = client
            .live()
            .get_opt::<k8s_openapi::api::core::v1::Pod>(&key)
            .await;
        assert!(found.unwrap().is_none());
    };
    read(before).await;
    let nothing = |_: &Manager| -> Result<(), BoxError> { Ok(()) };
    let operator = OperatorTest::declared(nothing).server(server.clone());
    let operator = operator.start().await.unwrap();
    read(ClientConfig::in_process(ann.service().unwrap(), "default")).await;
    let role = operator.rbac_needed("any").unwrap();
    assert!(role.ends_with("\nrules: []\n"), "{role}");
    read(ClientConfig::in_process(server.service(), "default")).await;
    let role = operator.rbac_needed("any").unwrap();
    assert!(
        role.ends_with("  resources: [pods]\n  verbs: [get]\n"),
        "{role}"
    );
    operator.stop().await.unwrap();
}

fn text(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap()
}
