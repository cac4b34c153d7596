//! Kinds that are declared once, with the history of their fields.

use serde_json::{Value, json};
use steersman::webhook::{ConversionError, Conversions};
use steersman_harness::{RoundTripProblem, RoundTrips, check_definition};

/// A kind with three versions and every entry of a history.
#[steersman::versioned(v1alpha1(deprecated = "use v1"), v1beta1, v1, tests = 1_000)]
mod shop {
    use std::collections::BTreeMap;

    use serde::{Deserialize, Serialize};
    use steersman::k8s_openapi::apimachinery::pkg::api::resource::Quantity;
    use steersman::k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
    use steersman::schemars::JsonSchema;
    use steersman::{CustomResource, KubeSchema};

    #[derive(CustomResource, Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
    #[kube(
        group = "example.com",
        kind = "Shop",
        namespaced,
        status = "ShopStatus"
    )]
    #[versioned(only(
        v1alpha1,
        kube(printcolumn(name = "Host", type_ = "string", json_path = ".spec.name"))
    ))]
    #[versioned(only(
        v1beta1,
        v1,
        kube(printcolumn(name = "Host", type_ = "string", json_path = ".spec.hostName"))
    ))]
    #[serde(rename_all = "camelCase")]
    pub(crate) struct ShopSpec {
        /// The name under which users find the shop.
        #[versioned(renamed(v1beta1, from = name))]
        pub(crate) host_name: String,
        #[versioned(added(v1beta1))]
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub(crate) tls: Option<Tls>,
        #[versioned(changed(v1, from = String, upgrade = seconds, downgrade = printed))]
        #[versioned(only(v1alpha1, v1beta1, schemars(regex(pattern = r"^[1-9]\d{0,3}[sm]$"))))]
        pub(crate) timeout_seconds: u32,
        /// The Secret with the certificate.
        #[versioned(deprecated(v1beta1, note = "use tls"))]
        pub(crate) certificate: Option<String>,
        #[versioned(removed(v1))]
        theme: Option<String>,
        #[versioned(added(v1beta1, default = 3), removed(v1, default = 5))]
        pub(super) retries: u8,
        #[serde(default)]
        #[schemars(length(max = 1))]
        pub(crate) shelves: Vec<Shelf>,
        pub(crate) racks: BTreeMap<String, Option<Vec<Shelf>>>,
        pub(crate) mode: Mode,
        pub(crate) storage: Box<Storage>,
        pub(crate) contact: Contact,
        #[versioned(renamed(v1, from = space), changed(v1beta1, from = i32, upgrade = wider, downgrade = narrower))]
        #[versioned(renamed(v1beta1, from = area))]
        pub(crate) surface: i64,
    }

    #[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
    pub(crate) struct Tls {
        pub(crate) secret: String,
        #[versioned(added(v1, default = Hosts(vec!["all".to_owned()])))]
        pub(crate) hosts: Hosts,
    }

    /// The same in all versions.
    #[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
    pub(crate) struct Hosts(pub(crate) Vec<String>);

    #[derive(Clone, Debug, Deserialize, KubeSchema, PartialEq, Serialize)]
    #[x_kube(validation = "self.label != 'forbidden'")]
    pub(crate) struct Shelf {
        pub(crate) label: String,
        #[versioned(added(v1beta1), renamed(v1, from = color))]
        pub(crate) colour: Option<String>,
    }

    #[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
    pub(crate) enum Mode {
        #[default]
        Plain,
        #[versioned(renamed(v1, from = Quick))]
        Fast,
        #[versioned(added(v1))]
        Automatic,
        #[versioned(removed(v1beta1, instead = Quick))]
        Legacy,
    }

    #[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
    #[serde(rename_all = "camelCase")]
    pub(crate) enum Storage {
        Local {
            path: String,
            #[versioned(added(v1beta1))]
            #[serde(default)]
            read_only: bool,
        },
        Remote(Shelf),
        #[versioned(added(v1, instead = v1beta1::Storage::Local { path: "/".to_owned(), read_only: true }))]
        Size(Quantity),
    }

    /// The same in all versions.
    #[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
    pub(crate) struct Contact {
        email: super::Address,
    }

    #[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
    pub(crate) struct ShopStatus {
        #[versioned(renamed(v1, from = open))]
        #[serde(default)]
        pub(crate) is_open: bool,
        #[serde(default)]
        conditions: Vec<Condition>,
    }

    impl Contact {
        pub(crate) fn domain(&self) -> &str {
            self.email.rsplit('@').next().unwrap_or_default()
        }
    }

    impl v1::Shop {
        pub(crate) fn has_tls(&self) -> bool {
            self.spec.tls.is_some()
        }
    }

    fn seconds(text: &str) -> Result<u32, String> {
        let (digits, unit) = text.split_at(text.len().saturating_sub(1));
        let number: u32 = digits
            .parse()
            .map_err(|_| format!("{text:?} has no number"))?;
        match unit {
            "s" => Ok(number),
            "m" => Ok(number * 60),
            _ => Err(format!("{text:?} has no unit")),
        }
    }

    fn printed(seconds: &u32) -> String {
        format!("{seconds}s")
    }

    fn wider(number: &i32) -> i64 {
        i64::from(*number)
    }

    fn narrower(number: &i64) -> i32 {
        i32::try_from(*number).unwrap_or(i32::MAX)
    }
}

type Address = String;

/// Two kinds, the hub in the middle, and another version stored.
#[steersman::versioned(v1alpha1(served = false), v1, v2, hub = v1, stored = v1alpha1, tests = 200)]
mod pair {
    use serde::{Deserialize, Serialize};
    use steersman::CustomResource;
    use steersman::schemars::JsonSchema;

    use super::Counted;

    #[derive(CustomResource, Clone, Debug, Deserialize, JsonSchema, Serialize)]
    #[kube(group = "example.com", kind = "Left")]
    pub(crate) struct LeftSpec {
        #[versioned(changed(v2, from = i32, upgrade = half, downgrade = double))]
        #[versioned(only(v2, schemars(range(min = -1000, max = 1000))))]
        size: i32,
    }

    #[derive(CustomResource, Clone, Debug, Deserialize, JsonSchema, Serialize)]
    #[kube(group = "example.com", kind = "Right", status = "Counted")]
    #[kube(validation = "self.spec.parts.size() < 7")]
    pub(crate) struct RightSpec {
        #[schemars(length(max = 10))]
        parts: Vec<Part>,
    }

    #[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
    pub(crate) struct Part(
        #[versioned(changed(v2, from = i32, upgrade = half, downgrade = double))]
        #[versioned(only(v2, schemars(range(min = -1000, max = 1000))))]
        i32,
    );

    fn half(number: &i32) -> i32 {
        number / 2
    }

    fn double(number: &i32) -> Result<i32, &'static str> {
        number.checked_mul(2).ok_or("it is too large")
    }
}

fn shop(version: &str, spec: &Value) -> Value {
    json!({
        "apiVersion": format!("example.com/{version}"), "kind": "Shop",
        "metadata": {"name": "a", "namespace": "default"}, "spec": spec,
    })
}

fn oldest() -> Value {
    json!({
        "name": "a.org", "timeoutSeconds": "2m", "theme": "dark", "mode": "Legacy", "surface": 7, "area": 7,
        "shelves": [{"label": "books"}], "racks": {"x": [{"label": "maps"}], "y": null},
        "storage": {"remote": {"label": "disk"}}, "contact": {"email": "a@b.org"},
    })
}

#[test]
fn an_old_object_becomes_the_newest_version_and_back() {
    let conversions = shop::conversions();
    let mut original = shop("v1alpha1", &oldest());
    original["status"] = json!({"open": true, "conditions": []});
    let new = conversions.convert(&original, "example.com/v1").unwrap();
    assert_eq!(
        new["spec"],
        json!({
            "hostName": "a.org", "timeoutSeconds": 120, "certificate": null, "mode": "Fast", "surface": 7,
            "shelves": [{"label": "books", "colour": null}],
            "racks": {"x": [{"label": "maps", "colour": null}], "y": null},
            "storage": {"remote": {"label": "disk", "colour": null}}, "contact": {"email": "a@b.org"},
        })
    );
    assert_eq!(new["status"]["is_open"], true);
    let back = conversions.convert(&new, "example.com/v1alpha1").unwrap();
    assert_eq!(back["spec"], original["spec"]);
    assert_eq!(back["status"], original["status"]);

    // Values that the other version cannot hold are replaced.
    let dropping = conversions.without_kept_fields();
    let mut new = new;
    new["metadata"]["annotations"] = json!({});
    new["spec"]["storage"] = json!({"size": "1Gi"});
    new["spec"]["tls"] = json!({"secret": "s", "hosts": ["x"]});
    new["spec"]["mode"] = json!("Automatic");
    let middle = dropping.convert(&new, "example.com/v1beta1").unwrap();
    assert_eq!(middle["spec"]["retries"], 5);
    assert_eq!(
        middle["spec"]["storage"],
        json!({"local": {"path": "/", "read_only": true}})
    );
    assert_eq!(middle["spec"]["tls"], json!({"secret": "s"}));
    assert_eq!(middle["spec"]["mode"], "Plain");
    let new = dropping.convert(&middle, "example.com/v1").unwrap();
    assert_eq!(new["spec"]["tls"], json!({"secret": "s", "hosts": ["all"]}));
}

#[test]
fn an_error_names_the_field_as_users_write_it() {
    let mut spec = oldest();
    spec["timeoutSeconds"] = json!("soon");
    let failed = shop::conversions().convert(&shop("v1alpha1", &spec), "example.com/v1");
    assert_eq!(
        failed.unwrap_err().to_string(),
        "it cannot be converted from Shop.v1alpha1.example.com to Shop.v1.example.com: \
         spec.timeoutSeconds cannot be converted: \"soon\" has no number"
    );
    let large = json!({
        "apiVersion": "example.com/v2", "kind": "Right", "metadata": {"name": "a"},
        "spec": {"parts": [1, 2_000_000_000]},
    });
    let failed = pair::conversions().convert(&large, "example.com/v1");
    let text = failed.unwrap_err().to_string();
    assert!(
        text.ends_with("spec.parts[1] cannot be converted: it is too large"),
        "{text}"
    );
}

#[test]
fn a_definition_has_all_versions_with_their_own_columns_and_descriptions() {
    let definition = shop::crd();
    let versions = &definition.spec.versions;
    let summary: Vec<(&str, bool)> = versions
        .iter()
        .map(|version| (&*version.name, version.storage))
        .collect();
    assert_eq!(
        summary,
        [("v1", true), ("v1beta1", false), ("v1alpha1", false)]
    );
    assert_eq!(versions[2].deprecation_warning.as_deref(), Some("use v1"));
    assert_eq!(versions[0].deprecated, None);
    let column = |at: usize| {
        let columns: &Vec<_> = versions[at].additional_printer_columns.as_ref().unwrap();
        columns
            .iter()
            .map(|column| &*column.json_path)
            .collect::<Vec<_>>()
    };
    assert_eq!(column(0), [".spec.hostName"]);
    assert_eq!(column(2), [".spec.name"]);
    let json = serde_json::to_value(&definition).unwrap();
    let property = |at: usize, name: &str| {
        let schema = &json["spec"]["versions"][at]["schema"]["openAPIV3Schema"];
        schema["properties"]["spec"]["properties"][name].clone()
    };
    let described = property(0, "certificate")["description"].clone();
    assert_eq!(
        described,
        "The Secret with the certificate.\n\nDeprecated since v1beta1: use tls."
    );
    assert_eq!(
        property(2, "certificate")["description"],
        "The Secret with the certificate."
    );
    assert_eq!(property(0, "theme"), Value::Null);
    assert_eq!(property(0, "timeoutSeconds")["type"], "integer");

    let stored: Vec<String> = pair::crds()
        .iter()
        .map(|definition| definition.spec.versions[0].name.clone())
        .collect();
    assert_eq!(stored, ["v1alpha1", "v1alpha1"]);
    assert!(!pair::crds()[0].spec.versions[0].served);
}

#[test]
fn a_type_that_does_not_differ_is_one_type() {
    let contact: shop::v1::Contact = serde_json::from_value(json!({"email": "a@b.org"})).unwrap();
    let same: shop::v1alpha1::Contact = contact;
    assert_eq!(same.domain(), "b.org");
    let spec = oldest();
    let new = shop::conversions()
        .convert(&shop("v1alpha1", &spec), "example.com/v1")
        .unwrap();
    let new: shop::v1::Shop = serde_json::from_value(new).unwrap();
    assert!(!new.has_tls() && new.spec.tls.is_none());
}

#[test]
fn the_conversions_of_several_modules_are_one_set() {
    let both = Conversions::new()
        .merge(shop::conversions())
        .merge(pair::conversions());
    let left = json!({
        "apiVersion": "example.com/v2", "kind": "Left", "metadata": {"name": "a"}, "spec": {"size": 4},
    });
    // Through the hub, which is between the two versions.
    let old = both.convert(&left, "example.com/v1alpha1").unwrap();
    assert_eq!(old["spec"]["size"], 8);
    assert!(
        both.convert(&shop("v1alpha1", &oldest()), "example.com/v1")
            .is_ok()
    );
    let twice = shop::conversions().merge(shop::conversions());
    let server = steersman::webhook::WebhookServer::new("0").conversions(twice);
    assert!(
        server
            .check()
            .unwrap_err()
            .to_string()
            .contains("registered twice")
    );
}

/// The same kind with a conversion that loses a half, and fails for large numbers.
#[test]
fn a_check_of_round_trips_names_the_seed_and_the_field() {
    let [left, right] = &*pair::crds() else {
        panic!("two kinds");
    };
    let dropping = pair::conversions().without_kept_fields();
    let small = |object: &mut Value| object["spec"]["size"] = json!(7);
    let error = RoundTrips::new(left, &dropping)
        .adjust(small)
        .check()
        .unwrap_err();
    let expected = RoundTripProblem::Differs {
        path: "spec.size".to_owned(),
        before: json!(7),
        after: json!(6),
    };
    assert_eq!(*error.problem, expected);
    let text = error.to_string();
    assert!(
        text.contains("is not the same (spec.size was 7 and is 6) along v1alpha1 → v2 → v1alpha1"),
        "{text}"
    );
    let again = RoundTrips::new(left, &dropping)
        .adjust(small)
        .seed(error.seed)
        .objects(1);
    assert_eq!(again.check().unwrap_err(), error);

    let failed = RoundTrips::new(right, &pair::conversions())
        .adjust(|object| object["spec"]["parts"] = json!([i32::MAX]))
        .check()
        .unwrap_err();
    let problem = &*failed.problem;
    assert!(
        matches!(
            problem,
            RoundTripProblem::Failed(ConversionError::Failed { .. })
        ),
        "{failed}"
    );
}

#[test]
fn a_check_of_a_definition_has_the_rules_of_all_versions() {
    let costs = check_definition(&shop::crd()).unwrap();
    let rules = costs
        .iter()
        .filter(|cost| cost.rule == "self.label != 'forbidden'");
    assert_eq!(rules.count(), 9);
    let [_, right] = &*pair::crds() else {
        panic!("two kinds");
    };
    let mut wrong = right.clone();
    let schema = wrong.spec.versions[1].schema.as_mut().unwrap();
    let schema = schema.open_api_v3_schema.as_mut().unwrap();
    let rules = schema.x_kubernetes_validations.as_mut().unwrap();
    rules[0].rule = "self.spec.part.size() < 7".to_owned();
    let error = check_definition(&wrong).unwrap_err().to_string();
    assert!(
        error.contains("the definition rights.example.com is invalid"),
        "{error}"
    );
    assert!(
        error.contains("spec.versions[1].schema.openAPIV3Schema.x-kubernetes-validations[0].rule"),
        "{error}"
    );
}

/// The status of a kind, which is declared outside.
#[derive(Clone, Debug, serde::Deserialize, steersman::schemars::JsonSchema, serde::Serialize)]
pub(crate) struct Counted {
    parts: usize,
}
