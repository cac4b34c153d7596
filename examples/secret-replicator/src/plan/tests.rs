//! Tables of sources, namespaces and copies.

use steersman::k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use steersman::kube_core::PartialObjectMetaExt as _;

use super::*;
use crate::names::{COPY, COPY_OF, ROLE, SOURCE};

fn meta(namespace: Option<&str>, name: &str, label: (&str, &str)) -> ObjectMeta {
    ObjectMeta {
        namespace: namespace.map(str::to_owned),
        name: Some(name.to_owned()),
        labels: Some([(label.0.to_owned(), label.1.to_owned())].into()),
        ..ObjectMeta::default()
    }
}

fn source(namespaces: &str) -> SecretMeta {
    let mut meta = meta(Some("vault"), "token", (ROLE, SOURCE));
    meta.annotations = Some([(NAMESPACES.to_owned(), namespaces.to_owned())].into());
    meta.into_response_partial()
}

fn copy(namespace: &str, name: &str) -> Arc<SecretMeta> {
    let mut meta = meta(Some(namespace), name, (ROLE, COPY));
    meta.annotations = Some([(COPY_OF.to_owned(), "vault/token".to_owned())].into());
    Arc::new(meta.into_response_partial())
}

fn namespaces() -> Vec<Arc<NamespaceMeta>> {
    let accepting = ["vault", "shop", "team-a", "team-b"].map(|name| (name, "true"));
    let all = accepting.into_iter().chain([("team-c", "false")]);
    all.map(|(name, accept)| Arc::new(meta(None, name, (ACCEPT, accept)).into_response_partial()))
        .collect()
}

fn names(secrets: &[Arc<SecretMeta>]) -> Vec<&str> {
    let names = secrets.iter().map(|one| one.metadata.namespace.as_deref());
    names.flatten().collect()
}

#[test]
fn names_and_beginnings_of_names_select_accepting_namespaces() {
    for (wanted, expected) in [
        ("shop", vec!["shop"]),
        ("shop, team-b", vec!["shop", "team-b"]),
        ("team-*", vec!["team-a", "team-b"]),
        // Not its own namespace.
        ("*", vec!["shop", "team-a", "team-b"]),
        ("sho, hop, nowhere, team-c", vec![]),
        ("", vec![]),
    ] {
        let plan = plan(Some(&source(wanted)), &namespaces(), Vec::new());
        assert_eq!(plan.missing, expected, "{wanted}");
    }
}

#[test]
fn copies_are_wanted_or_surplus() {
    let copies = vec![
        copy("shop", "token"),
        copy("team-a", "token"),
        // A name that the source does not have.
        copy("team-b", "other"),
    ];
    let plan_of = |source: Option<&SecretMeta>| plan(source, &namespaces(), copies.clone());
    let plan = plan_of(Some(&source("team-*")));
    assert_eq!(plan.missing, ["team-b"]);
    assert_eq!(names(&plan.wanted), ["team-a"]);
    assert_eq!(names(&plan.surplus), ["shop", "team-b"]);
    let orphaned = plan_of(None);
    assert_eq!(orphaned.surplus.len(), 3);
    assert!(orphaned.missing.is_empty() && orphaned.wanted.is_empty());
}

#[test]
fn a_namespace_that_is_deleted_gets_no_copy() {
    let mut namespaces = namespaces();
    let shop = Arc::make_mut(&mut namespaces[1]);
    shop.metadata.deletion_timestamp = Some(Time("2026-07-15T10:00:00Z".parse().unwrap()));
    let plan = plan(Some(&source("shop")), &namespaces, Vec::new());
    assert!(plan.missing.is_empty());
}
