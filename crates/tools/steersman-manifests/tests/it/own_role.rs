//! Tests that a program works under the implied rules, without an observed rule.

use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use kube_core::CustomResourceExt as _;
use serde_json::{Value, json};
use steersman_cache::ByObject;
use steersman_cli::Program;
use steersman_crds::Crd;
use steersman_manifests::{Manifests, Options, RoleGrant, RuleList, RuleTarget};
use steersman_testenv::apiserver::ApiServer;
use steersman_testenv::{TestEnv, eventually_within};

use crate::install::{apply, documents, enforcing, refused, start};
use crate::sites::{Site, program, v1alpha1};

const SITES: &str = "sites.example.com";
const MAPS: &str = "configmaps";

/// Waits until `check` confirms that the program has done its work.
pub(crate) async fn done(what: &str, server: &ApiServer, check: impl Fn() -> bool) {
    let check = async || match check() {
        true => Ok(()),
        false => Err(format!("refused: {:?}", refused(server))),
    };
    let patience = Duration::from_secs(60);
    let outcome = eventually_within(patience, what, check).await;
    outcome.unwrap();
}

fn site(name: &str, pages: &[&str]) -> Value {
    json!({
        "apiVersion": "example.com/v1", "kind": "Site", "metadata": {"name": name, "namespace": "web"},
        "spec": {"pages": pages},
    })
}

/// Returns whether a namespace has an Event about the object.
fn has_event(server: &ApiServer, namespace: &str, object: &str) -> bool {
    let events = server.list("events.events.k8s.io", namespace);
    events
        .iter()
        .any(|event| event["regarding"]["name"] == object)
}

/// Runs a program from an object of its former release to the deletion of all objects. Returns its roles.
async fn works(options: Options, program: impl Fn() -> Program) -> Vec<RoleGrant> {
    let env = TestEnv::https(enforcing()).await.unwrap();
    let server = env.server().unwrap();
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "web"}});
    server.create(namespace).unwrap();
    // A former release has stored an object in its own version.
    let former = Crd::new(&v1alpha1::Site::crd());
    server.install_crd(former.content().clone()).unwrap();
    let old = json!({
        "apiVersion": "example.com/v1alpha1", "kind": "Site", "metadata": {"name": "old", "namespace": "web"},
        "spec": {"page": "old-page"},
    });
    server.create(old).unwrap();

    let description = program().describe().unwrap();
    let manifests = Manifests::new(&description, &RuleList::default(), &options).unwrap();
    let mut objects = documents(&manifests.install());
    // The definitions are left out, because the leader installs them.
    objects.retain(|object| object["kind"] != "CustomResourceDefinition");
    apply(server, &objects);
    let running = start(&env, &objects, program());

    let get = |resource: &str, name: &str| server.get(resource, "web", name);
    let has_pages = |name: &str, pages: u64| {
        get(SITES, name).is_some_and(|site| site["status"]["pages"] == pages)
    };
    done("the stored object is published", server, || {
        has_pages("old", 1) && get(MAPS, "old-page").is_some()
    })
    .await;
    done("the stored objects are migrated", server, || {
        let definitions = "customresourcedefinitions.apiextensions.k8s.io";
        let definition = server.get(definitions, "", SITES).unwrap();
        definition["status"]["storedVersions"] == json!(["v1"])
    })
    .await;
    server.create(site("new", &["a", "b"])).unwrap();
    done("all pages are published", server, || {
        has_pages("new", 2) && get(MAPS, "b").is_some()
    })
    .await;
    let change = json!({"spec": {"pages": ["a"]}});
    server.merge_patch(SITES, "web", "new", &change).unwrap();
    done("a page is pruned", server, || {
        has_pages("new", 1) && get(MAPS, "b").is_none()
    })
    .await;
    server.delete(SITES, "web", "new").unwrap();
    done("the finalizer is removed", server, || {
        get(SITES, "new").is_none() && get(MAPS, "a").is_none()
    })
    .await;
    let region = json!({
        "apiVersion": "example.com/v1", "kind": "Region", "metadata": {"name": "north"}, "spec": {},
    });
    server.create(region).unwrap();
    done("every Event is there", server, || {
        has_event(server, "web", "old") && has_event(server, "default", "north")
    })
    .await;
    running.stop().await;
    assert!(refused(server).is_empty(), "{:?}", refused(server));
    manifests.grants()
}

// MANIFEST-3: the implied rules suffice, and `doctor` names each rule that is missing.
#[tokio::test]
async fn the_implied_rules_are_enough_in_all_namespaces() {
    works(Options::default(), program).await;
}

// MANIFEST-3: the implied rules suffice, and `doctor` names each rule that is missing.
#[tokio::test]
async fn the_implied_rules_are_enough_in_one_namespace() {
    let options = Options {
        namespaces: vec!["web".to_owned()],
        ..Options::default()
    };
    works(options, program).await;
}

// MANIFEST-3, MANIFEST-4
#[tokio::test]
async fn a_kind_that_the_cache_holds_in_some_namespaces_has_its_rules_in_these_alone() {
    let limited = || {
        program().options(|builder, config| {
            let web = || ByObject::new().namespaces(["web"]);
            let options = config.cache_options().by_object::<Site>(web());
            builder.cache(options.by_object::<ConfigMap>(web()))
        })
    };
    let grants = works(Options::default(), limited).await;
    let granted = |namespace: Option<&str>, resource: &str| -> Vec<String> {
        let of_work = grants
            .iter()
            .find(|grant| grant.role == "sites" && grant.namespace.as_deref() == namespace);
        let permissions = of_work.unwrap().permissions().into_iter();
        let of_resource = permissions.filter(|permission| {
            matches!(&permission.target, RuleTarget::Resource { resource: of, .. } if of == resource)
        });
        of_resource.map(|permission| permission.verb).collect()
    };
    let owned = ["get", "list", "watch", "create", "patch", "delete"];
    assert_eq!(granted(Some("web"), "configmaps"), owned);
    assert_eq!(granted(None, "configmaps"), [""; 0]);
    assert_eq!(granted(Some("web"), "sites/status"), ["update", "patch"]);
    assert_eq!(granted(None, "sites/status"), [""; 0]);
    // Stored objects are migrated in all namespaces.
    assert_eq!(granted(None, "sites"), ["list", "patch"]);
    assert_eq!(granted(None, "regions"), ["get", "list", "watch", "patch"]);
}
