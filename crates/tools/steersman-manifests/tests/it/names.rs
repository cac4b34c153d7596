//! Tests the errors for names and options that are not allowed.

use serde_json::{Value, json};
use steersman_apimachinery::yaml;
use steersman_description::Description;
use steersman_manifests::{Error, Manifests, Options, RuleList};

use crate::examples::{OBSERVED, everything, simple};

fn refused(description: &Description, options: &Options) -> String {
    let manifests = Manifests::new(description, &RuleList::default(), options);
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
    // The versions of the definition differ, so it is refused without a conversion.
    let refused = Manifests::new(&description, &RuleList::default(), &Options::default());
    assert!(matches!(refused, Err(Error::Unconverted(_))));
    let mut converted = description.converted[0].clone();
    "shop.example.com".clone_into(&mut converted.group);
    description.converted.push(converted);
    let manifests = Manifests::new(&description, &RuleList::default(), &Options::default());
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
    let manifests = Manifests::new(&description, &RuleList::default(), &Options::default());
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

/// Collects all scalars of a value.
fn scalars<'a>(value: &'a Value, found: &mut Vec<&'a Value>) {
    match value {
        Value::Array(items) => items.iter().for_each(|item| scalars(item, found)),
        Value::Object(map) => map.values().for_each(|value| scalars(value, found)),
        scalar => found.push(scalar),
    }
}

/// Returns how often a program's name occurs as a text in its manifests, and the scalars that are no texts.
fn texts_and_others(name: &str) -> (usize, Vec<Value>) {
    let mut description = simple();
    description.name = name.to_owned();
    // The version of a program may be any text.
    description.version = format!("{name}: \"# '");
    let options = Options {
        namespace: Some(name.to_owned()),
        image: Some(name.to_owned()),
        namespaces: vec![name.to_owned()],
        ..Options::default()
    };
    let manifests = Manifests::new(&description, &RuleList::default(), &options).unwrap();
    let mut files = manifests.kustomize();
    // JSON quotes every text.
    files.retain(|path, _| path.ends_with(".yaml"));
    files.extend(manifests.install());
    let plain = |path: &String| path.ends_with("values.yaml") || path.ends_with("Chart.yaml");
    files.extend(manifests.helm().into_iter().filter(|(path, _)| plain(path)));
    let (mut texts, mut others) = (0, Vec::new());
    for text in files.values() {
        // The YAML is parsed as kubectl and Helm do.
        for document in yaml::documents(text).unwrap() {
            let mut values = Vec::new();
            scalars(&document.value, &mut values);
            texts += values.iter().filter(|value| **value == name).count();
            others.extend(
                values
                    .into_iter()
                    .filter(|value| !value.is_string())
                    .cloned(),
            );
        }
    }
    (texts, others)
}

#[test]
fn names_that_yaml_could_read_as_other_values_are_texts_everywhere() {
    let expected = texts_and_others("counter");
    assert!(expected.0 > 80, "{expected:?}");
    for name in [
        "123", "0", "1e3", "0x1f", "0o7", "0b1", "2026-01-01", "true", "false", "null", "yes",
        "no", "on", "off", "y", "n", "e3", "inf", "nan",
    ] {
        assert_eq!(texts_and_others(name), expected, "{name}");
    }
}

#[test]
fn a_namespace_of_another_name_must_exist_and_is_not_declared() {
    for (name, namespace, declared) in [
        ("counter", None, true),
        ("counter", Some("counter-system"), true),
        ("counter", Some("default"), false),
        // Names with the prefix of Kubernetes' own namespaces.
        ("kube", None, false),
    ] {
        let mut description = simple();
        description.name = name.to_owned();
        let options = Options {
            namespace: namespace.map(str::to_owned),
            ..Options::default()
        };
        let manifests = Manifests::new(&description, &RuleList::default(), &options).unwrap();
        assert_eq!(manifests.required_namespace().is_none(), declared);
        for files in [manifests.install(), manifests.kustomize()] {
            let has = files
                .values()
                .any(|text| text.contains("kind: Namespace\n"));
            assert_eq!(has, declared, "{name} in {namespace:?}");
        }
        let installer = &manifests.install()["dist/install.yaml"];
        assert_eq!(installer.contains(" must exist.\n"), !declared);
    }
}

#[test]
fn a_namespace_that_is_named_twice_has_one_role() {
    let options = Options {
        namespaces: ["web", "shop", "web"].map(str::to_owned).to_vec(),
        ..Options::default()
    };
    let manifests = Manifests::new(&simple(), &RuleList::default(), &options).unwrap();
    let role = &manifests.rbac()["config/rbac/role.yaml"];
    assert_eq!(role.matches("kind: Role\n").count(), 2, "{role}");
    assert!(manifests.install()["dist/install.yaml"].contains("--namespace=web,shop\n"));
}

#[test]
fn a_kind_of_one_version_has_no_rule_outside_of_the_watched_namespaces() {
    let mut description = everything();
    let options = Options {
        namespaces: vec!["web".to_owned()],
        ..Options::default()
    };
    let on_all = |description: &Description| {
        let rules = RuleList::parse("rbac.observed.yaml", OBSERVED).unwrap();
        let manifests = Manifests::new(description, &rules, &options).unwrap();
        let files = manifests.rbac();
        let documents = yaml::documents(&files["config/rbac/role.yaml"]).unwrap();
        assert_eq!(documents[0].value["kind"], "ClusterRole");
        documents[0].value["rules"]
            .to_string()
            .contains(r#""apiGroups":["web.example.com"]"#)
    };
    // Stored objects of former versions are migrated in all namespaces.
    assert!(on_all(&description));
    let versions = description.definitions[0]["spec"]["versions"].as_array_mut();
    versions.unwrap().remove(0);
    assert!(!on_all(&description));
}

#[test]
fn rules_on_users_are_not_in_a_namespace() {
    let text = "\
rules:
- apiGroups: [\"\"]
  resources: [users, groups, serviceaccounts]
  verbs: [impersonate]
- apiGroups: [rbac.authorization.k8s.io]
  resources: [clusterroles]
  resourceNames: [view]
  verbs: [bind]
";
    let options = Options {
        namespaces: vec!["web".to_owned()],
        ..Options::default()
    };
    let mut rules = RuleList::default();
    rules.merge(&RuleList::parse("rbac.extra.yaml", text).unwrap());
    let manifests = Manifests::new(&simple(), &rules, &options).unwrap();
    let files = manifests.rbac();
    let documents = yaml::documents(&files["config/rbac/role.yaml"]).unwrap();
    let expected = json!([
        {"apiGroups": [""], "resources": ["groups", "users"], "verbs": ["impersonate"]},
        {"apiGroups": ["rbac.authorization.k8s.io"], "resourceNames": ["view"], "resources": ["clusterroles"], "verbs": ["bind"]},
    ]);
    assert_eq!(documents[0].value["rules"], expected);
    let rules = documents[1].value["rules"].to_string();
    assert!(
        rules.contains(r#"["serviceaccounts"],"verbs":["impersonate"]"#),
        "{rules}"
    );
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

#[test]
fn the_account_of_prometheus_has_a_namespace_and_a_name() {
    let of = |account: &str| {
        let options = Options {
            prometheus_account: Some(account.to_owned()),
            ..Options::default()
        };
        Manifests::new(&simple(), &RuleList::default(), &options)
    };
    for account in [
        "prometheus-k8s", "monitoring/", "/a", "a/b/c", "A/b", "a/b c",
    ] {
        let problem = of(account).unwrap_err().to_string();
        let start = format!("the option prometheus-account is {account:?}: write it as");
        assert!(problem.starts_with(&start), "{problem}");
    }
    assert!(of("monitoring/prometheus.example").is_ok());
}
