//! Names and options that are refused, each with its place.

use serde_json::json;
use steersman_cli::Description;
use steersman_manifests::{Manifests, Observed, Options};

use crate::examples::{everything, simple};

fn refused(description: &Description, options: &Options) -> String {
    let manifests = Manifests::new(description, &Observed::default(), options);
    manifests.unwrap_err().to_string()
}

#[test]
fn a_name_that_kubernetes_refuses_is_named_with_its_place() {
    let mut description = simple();
    description.name = "Website_Operator".to_owned();
    let error = refused(&description, &Options::default());
    assert!(
        error.starts_with("the name of the program is \"Website_Operator\": use at most 50"),
        "{error}"
    );
    let options = Options {
        namespace: Some("-a".to_owned()),
        ..Options::default()
    };
    let error = refused(&simple(), &options);
    assert!(error.starts_with("the namespace is \"-a\""), "{error}");
    let options = Options {
        namespaces: vec!["web".to_owned(), "a,b".to_owned()],
        ..Options::default()
    };
    let error = refused(&simple(), &options);
    assert!(
        error.starts_with("a watched namespace is \"a,b\""),
        "{error}"
    );
}

#[test]
fn an_image_that_would_break_the_manifest_is_refused() {
    let options = Options {
        image: Some("a\nb: c".to_owned()),
        ..Options::default()
    };
    let error = refused(&simple(), &options);
    assert!(
        error.starts_with("the option image is \"a\\nb: c\": write it as"),
        "{error}"
    );
}

#[test]
fn a_converted_kind_without_a_definition_is_refused() {
    let mut description = everything();
    description.definitions.clear();
    let error = refused(&description, &Options::default());
    assert!(
        error.starts_with("the program converts Website.web.example.com, but"),
        "{error}"
    );
}

#[test]
fn kinds_of_one_name_in_two_groups_have_roles_of_their_own() {
    let mut description = everything();
    let mut other = description.definitions[0].clone();
    other["spec"]["group"] = json!("shop.example.com");
    other["metadata"]["name"] = json!("websites.shop.example.com");
    description.definitions.push(other);
    let manifests = Manifests::new(&description, &Observed::default(), &Options::default());
    let files = manifests.unwrap().rbac();
    for group in ["web", "shop"] {
        let path = format!("config/rbac/website-{group}-example-com_viewer_role.yaml");
        assert!(files.contains_key(&path), "{path}");
    }
}

#[test]
fn two_webhooks_of_a_kind_have_different_names() {
    let mut description = everything();
    let mut other = description.webhooks[0].clone();
    other.path = "/validate-again".to_owned();
    other.object.version = "v1alpha1".to_owned();
    description.webhooks.push(other);
    let manifests = Manifests::new(&description, &Observed::default(), &Options::default());
    let files = manifests.unwrap().kustomize();
    let text = &files["config/webhook/configurations.yaml"];
    for name in [
        "validate.websites.web.example.com",
        "validate-2.websites.web.example.com",
    ] {
        assert_eq!(
            text.matches(&format!("name: {name}\n")).count(),
            1,
            "{text}"
        );
    }
}

#[test]
fn options_are_read_with_their_defaults() {
    let options: Options = serde_saphyr::from_str("network-policy: true\n").unwrap();
    let expected = Options {
        network_policy: true,
        ..Options::default()
    };
    assert_eq!(options, expected);
    assert!(serde_saphyr::from_str::<Options>("netpol: true\n").is_err());
}
