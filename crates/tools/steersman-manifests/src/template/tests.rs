//! Tests filling the template of a manifest.

use steersman_description::Description;

use super::fill;
use crate::operator::Operator;
use crate::options::Options;

fn operator(namespaces: &[&str]) -> Operator {
    let description: Description = serde_json::from_value(serde_json::json!({
        "name": "counter", "version": "0.1.0", "framework": "0.1.0", "definitions": [], "kinds": [], "controllers": [],
        "webhooks": [], "converted": [],
    }))
    .unwrap();
    let options = Options {
        namespaces: namespaces.iter().map(|&name| name.to_owned()).collect(),
        ..Options::default()
    };
    Operator::new(&description, &options).unwrap()
}

#[test]
fn facts_are_filled_in() {
    let template = "${name} ${namespace} ${image} ${replicas}\n";
    let expected = "counter counter-system counter:0.1.0 2\n";
    assert_eq!(fill(template, &operator(&[])), expected);
}

#[test]
fn a_line_with_a_condition_is_kept_only_if_the_condition_holds() {
    let template = "a\n?watched  --namespace=${watched}\n?webhooks b\n";
    assert_eq!(fill(template, &operator(&[])), "a\n");
    let watched = operator(&["web", "shop"]);
    assert_eq!(fill(template, &watched), "a\n  --namespace=web,shop\n");
}
