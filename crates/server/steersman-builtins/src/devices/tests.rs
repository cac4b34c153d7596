//! Validation of claims and of their allocations, with the messages of Kubernetes.
//!
//! Source: `pkg/apis/resource/validation/validation_resourceclaim_test.go`.

use serde_json::{Value, json};

use super::{RESOURCE_CLAIM, RESOURCE_SLICE, status};
use crate::fields::Findings;
use steersman_apimachinery::status::FieldError;

const SHARE: &str = "123e4567-e89b-12d3-a456-426614174000";

fn listed(errors: Vec<FieldError>) -> Vec<String> {
    errors
        .into_iter()
        .map(|error| format!("{}: {}", error.field, error.message))
        .collect()
}

fn claim(status: &Value) -> Value {
    json!({"spec": {"devices": {"requests": [
        {"name": "r", "exactly": {"deviceClassName": "c"}},
        {"name": "f", "firstAvailable": [{"name": "one", "deviceClassName": "c"}]},
    ]}}, "status": status})
}

/// Returns the errors of a status after an older one.
fn refused(new: &Value, old: &Value) -> Vec<String> {
    listed(Findings::errors(&claim(new), |root| {
        status::check(root, &claim(old))
    }))
}

fn result(request: &str, device: &str) -> Value {
    json!({"request": request, "driver": "d.io", "pool": "p/q", "device": device})
}

fn allocated(results: &[Value]) -> Value {
    json!({"devices": {"results": results}})
}

fn pod(uid: &str) -> Value {
    json!({"resource": "pods", "name": "p", "uid": uid})
}

#[test]
fn an_allocation_with_reservations_and_devices_is_accepted() {
    let shared = json!({"request": "f/one", "driver": "d.io", "pool": "p", "device": "b",
        "shareID": SHARE, "bindingConditions": ["a.io/Ready"], "bindingFailureConditions": ["a.io/Failed"],
        "tolerations": [{"operator": "Exists", "effect": "None"}]});
    let new = json!({
        "allocation": {"devices": {"results": [result("r", "a"), shared], "config": [
            {"source": "FromClass", "opaque": {"driver": "d.io", "parameters": {"kind": "K"}}}]},
            "nodeSelector": {"nodeSelectorTerms": [{"matchFields": [
                {"key": "metadata.name", "operator": "In", "values": ["n"]}]}]}},
        "reservedFor": [pod("1"), pod("2")],
        "devices": [
            {"driver": "d.io", "pool": "p/q", "device": "a", "data": {"a": 1},
                "networkData": {"interfaceName": "eth0", "ips": ["10.9.8.1/24", "2001:db8::1/64"]}},
            {"driver": "d.io", "pool": "p", "device": "b", "shareID": SHARE},
        ],
    });
    assert!(refused(&new, &json!({})).is_empty());
    assert!(refused(&new, &new).is_empty());
    assert!(refused(&json!({}), &new).is_empty());
}

#[test]
fn an_allocation_never_changes() {
    let old = json!({"allocation": allocated(&[result("r", "a")])});
    let same = json!({"allocation": {"devices": {"results": [result("r", "a")], "config": []}}});
    assert!(refused(&same, &old).is_empty());
    let other = json!({"allocation": allocated(&[result("no", "b")])});
    assert_eq!(
        refused(&other, &old),
        [concat!(
            "status.allocation: Invalid value: {\"Devices\":{\"Results\":[{\"Request\":\"no\",\"Driver\":\"d.io\",",
            "\"Pool\":\"p/q\",\"Device\":\"b\",\"AdminAccess\":null,\"Tolerations\":null,\"BindingConditions\":null,",
            "\"BindingFailureConditions\":null,\"ShareID\":null,\"ConsumedCapacity\":null}],\"Config\":null},",
            "\"NodeSelector\":null,\"AllocationTimestamp\":null}: field is immutable"
        )]
    );
}

#[test]
fn every_part_of_a_first_allocation_is_validated() {
    const NO_REQUEST: &str = "must be the name of a request in the claim or the name of a request and a subrequest separated by '/'";
    let bad = json!({"request": "f/two", "driver": "", "pool": "", "device": "A",
        "bindingConditions": ["a", "a", "b"], "bindingFailureConditions": ["b"],
        "tolerations": [{"key": "k", "operator": "Exists", "value": "v"}, {"effect": "X"}],
        "shareID": SHARE.to_uppercase()});
    let new = json!({"allocation": {"devices": {"results": [result("r/s/t", "a"), bad], "config": [
        {"source": "", "requests": ["r", "r", "x"]},
        {"source": "X", "opaque": {"driver": "d.io", "parameters": ["x"]}},
    ]}, "nodeSelector": {}}});
    let found = refused(&new, &json!({}));
    let at = "status.allocation.devices";
    for expected in [
        format!("{at}.results[0].request: Invalid value: \"r/s/t\": {NO_REQUEST}"),
        format!("{at}.results[1].request: Invalid value: \"f/two\": {NO_REQUEST}"),
        format!("{at}.results[1].driver: Required value"),
        format!("{at}.results[1].pool: Required value"),
        format!("{at}.results[1].bindingConditions[1]: Duplicate value: \"a\""),
        format!("{at}.results[1].bindingFailureConditions[0]: Invalid value: \"b\": bindingFailureConditions must not overlap with bindingConditions"),
        format!("{at}.results[1].tolerations[0].value: Invalid value: \"v\": must be empty for operator `Exists`"),
        format!("{at}.results[1].tolerations[1].operator: Required value"),
        format!("{at}.results[1].tolerations[1].effect: Unsupported value: \"X\": supported values: \"NoExecute\", \"NoSchedule\", \"None\""),
        format!("{at}.config[0].source: Required value"),
        format!("{at}.config[0].requests[2]: Invalid value: \"x\": {NO_REQUEST}"),
        format!("{at}.config[0].requests[1]: Duplicate value: \"r\""),
        format!("{at}.config[0].opaque: Required value"),
        format!("{at}.config[1].source: Unsupported value: \"X\": supported values: \"FromClaim\", \"FromClass\""),
        format!("{at}.config[1].opaque.parameters: Invalid value: \"<value omitted>\": must be a valid JSON object"),
        "status.allocation.nodeSelector.nodeSelectorTerms: Required value: must have at least one node selector term".to_owned(),
    ] {
        assert!(found.contains(&expected), "{expected} is not in {found:#?}");
    }
    let begins = |text: &str| found.iter().any(|one| one.starts_with(text));
    assert!(begins(&format!(
        "{at}.results[1].device: Invalid value: \"A\""
    )));
    assert!(begins(&format!(
        "{at}.results[1].shareID: Invalid value: \"{}\": uid must be in RFC 4122 normalized form",
        SHARE.to_uppercase()
    )));
    assert_eq!(found.len(), 19, "{found:#?}");
}

#[test]
fn one_kind_of_binding_conditions_needs_the_other() {
    for (given, missing) in [
        ("bindingConditions", "bindingFailureConditions"),
        ("bindingFailureConditions", "bindingConditions"),
    ] {
        let mut one = result("r", "a");
        one[given] = json!(["a"]);
        assert_eq!(
            refused(&json!({"allocation": allocated(&[one])}), &json!({})),
            [format!(
                "status.allocation.devices.results[0].{missing}: Invalid value: null: {missing} are required to use {given}"
            )]
        );
    }
}

#[test]
fn lists_that_are_too_long_are_refused_for_their_length_alone() {
    let mut bound = result("r", "a");
    bound["bindingConditions"] = json!(vec!["a b"; 5]);
    bound["bindingFailureConditions"] = json!(["f"]);
    let many =
        json!({"allocation": allocated(&vec![json!({}); 33]), "reservedFor": vec![json!({}); 257]});
    assert_eq!(
        refused(&many, &json!({})),
        [
            "status.reservedFor: Too many: 257: must have at most 256 items",
            "status.allocation.devices.results: Too many: 33: must have at most 32 items",
        ]
    );
    let config = json!({"allocation": {"devices": {"config": vec![json!({}); 65]}}});
    assert_eq!(
        refused(&config, &json!({})),
        ["status.allocation.devices.config: Too many: 65: must have at most 64 items"]
    );
    let found = refused(&json!({"allocation": allocated(&[bound])}), &json!({}));
    let at = "status.allocation.devices.results[0].bindingConditions";
    assert_eq!(
        found[0],
        format!("{at}: Too many: 5: must have at most 4 items")
    );
    assert_eq!(found[1], format!("{at}[1]: Duplicate value: \"a b\""));
}

#[test]
fn a_consumer_reserves_a_claim_once() {
    let allocation = allocated(&[result("r", "a")]);
    let new = json!({"allocation": allocation, "reservedFor": [pod("1"), {}, pod("1")]});
    assert_eq!(
        refused(&new, &json!({})),
        [
            "status.reservedFor[1].resource: Required value",
            "status.reservedFor[1].name: Required value",
            "status.reservedFor[1].uid: Required value",
            "status.reservedFor[2]: Duplicate value: \"1\"",
        ]
    );
    assert_eq!(
        refused(&json!({"reservedFor": [pod("1")]}), &json!({})),
        ["status.reservedFor: Forbidden: may not be specified when `allocated` is not set"]
    );
}

#[test]
fn a_claim_in_deletion_gets_no_new_reservation() {
    let status = |users: &[&str]| {
        let users: Vec<Value> = users.iter().map(|uid| pod(uid)).collect();
        let mut claim =
            claim(&json!({"allocation": allocated(&[result("r", "a")]), "reservedFor": users}));
        claim["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        claim
    };
    assert!(
        listed(Findings::errors(&status(&["1"]), |root| status::check(
            root,
            &status(&["1", "2"])
        )))
        .is_empty()
    );
    assert_eq!(
        listed(Findings::errors(
            &status(&["1", "3"]),
            |root| status::check(root, &status(&["1", "2"]))
        )),
        [
            "status.reservedFor: Forbidden: new entries may not be added while `deallocationRequested` or `deletionTimestamp` are set"
        ]
    );
}

#[test]
fn the_status_of_a_device_is_validated() {
    let old = json!({"allocation": allocated(&[result("r", "a")])});
    let with = |devices: Value| {
        let mut new = old.clone();
        new["devices"] = devices;
        refused(&new, &old)
    };
    let device = |more: Value| {
        let mut device = json!({"driver": "d.io", "pool": "p/q", "device": "a"});
        let members = device.as_object_mut().unwrap();
        members.extend(more.as_object().unwrap().clone());
        device
    };
    assert_eq!(
        with(json!([device(json!({})), device(json!({}))])),
        [
            "status.devices[1]: Duplicate value: {\"Driver\":\"d.io\",\"Pool\":\"p/q\",\"Device\":\"a\",\"ShareID\":\"\"}"
        ]
    );
    // A share makes a device differ from the same device without one.
    assert_eq!(
        with(json!([device(json!({"shareID": SHARE}))])),
        [format!(
            "status.devices[0]: Invalid value: {{\"Driver\":\"d.io\",\"Pool\":\"p/q\",\"Device\":\"a\",\"ShareID\":\"{SHARE}\"}}: must be an allocated device in the claim"
        )]
    );
    let condition = |kind: usize| {
        json!({"type": format!("t-{kind}"), "status": "True", "reason": "R",
            "lastTransitionTime": "2026-01-01T00:00:00Z"})
    };
    let conditions: Vec<Value> = (0..9).map(condition).collect();
    let bad = device(
        json!({"conditions": conditions, "data": "text", "networkData": {
        "interfaceName": "x".repeat(257), "hardwareAddress": "x".repeat(129),
        "ips": ["300.9.8.0/24", "010.009.008.000/24", "2001:0db8::1/64", "10.9.8.1/24", "10.9.8.1/24",
            "::ffff:10.0.0.1/120"]}}),
    );
    let at = "status.devices[0]";
    let canonical = |index: usize, value: &str, usual: &str| {
        format!(
            "{at}.networkData.ips[{index}]: Invalid value: \"{value}\": must be in canonical form (\"{usual}\")"
        )
    };
    assert_eq!(
        with(json!([bad])),
        [
            format!("{at}.conditions: Too many: 9: must have at most 8 items"),
            format!("{at}.data: Invalid value: \"<value omitted>\": must be a valid JSON object"),
            format!("{at}.networkData.interfaceName: Too long: may not be more than 256 bytes"),
            format!("{at}.networkData.hardwareAddress: Too long: may not be more than 128 bytes"),
            format!(
                "{at}.networkData.ips[0]: Invalid value: \"300.9.8.0/24\": must be a valid address in CIDR form, (e.g. 10.9.8.7/24 or 2001:db8::1/64)"
            ),
            canonical(1, "010.009.008.000/24", "10.9.8.0/24"),
            canonical(2, "2001:0db8::1/64", "2001:db8::1/64"),
            canonical(5, "::ffff:10.0.0.1/120", "10.0.0.1/24"),
            format!("{at}.networkData.ips[4]: Duplicate value: \"10.9.8.1/24\""),
        ]
    );
    let long = device(
        json!({"data": {"a": "x".repeat(10 * 1024 - 7)}, "networkData":
        {"ips": vec!["x"; 17]}}),
    );
    assert_eq!(
        with(json!([long])),
        [
            format!("{at}.data: Too long: may not be more than 10240 bytes"),
            format!("{at}.networkData.ips: Too many: 17: must have at most 16 items"),
        ]
    );
    let fits = device(json!({"data": {"a": "x".repeat(10 * 1024 - 8)}}));
    assert!(with(json!([fits])).is_empty());
}

/// Source: `Validate` of github.com/google/uuid, which accepts several forms.
#[test]
fn a_share_id_is_a_uuid_in_canonical_form() {
    let errors_of = |share: &str| {
        let mut one = result("r", "a");
        one["shareID"] = json!(share);
        let found = refused(&json!({"allocation": allocated(&[one])}), &json!({}));
        let at =
            format!("status.allocation.devices.results[0].shareID: Invalid value: \"{share}\": ");
        found.first().map(|one| one.replace(&at, ""))
    };
    let normal = "uid must be in RFC 4122 normalized form, `xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx` with lowercase hexadecimal characters";
    let form = "error validating uid: invalid UUID format";
    for (share, expected) in [
        (SHARE.to_owned(), None),
        (format!("urn:uuid:{SHARE}"), Some(normal)),
        (format!("{{{SHARE}}}"), Some(normal)),
        (SHARE.replace('-', ""), Some(normal)),
        (
            "x".to_owned(),
            Some("error validating uid: invalid UUID length: 1"),
        ),
        (SHARE.replace('-', "0"), Some(form)),
        (SHARE.replace('e', "g"), Some(form)),
        ("g".repeat(32), Some(form)),
        (
            format!("({SHARE})"),
            Some("error validating uid: invalid bracketed UUID format"),
        ),
    ] {
        assert_eq!(errors_of(&share).as_deref(), expected, "{share}");
    }
}

/// A device's status is removed together with the allocation of its share.
#[test]
fn the_status_of_a_freed_share_is_dropped() {
    let share = |id: &str| json!({"driver": "d.io", "pool": "p", "device": "a", "shareID": id});
    let status = |results: &[Value]| json!({"allocation": allocated(results), "devices": [share("1"), share("2")]});
    let old = claim(&status(&[share("1"), share("2")]));
    let mut new = claim(&status(&[share("2")]));
    RESOURCE_CLAIM.finish_status.unwrap()(&mut new, &old, "");
    assert_eq!(new["status"]["devices"], json!([share("2")]));
}

#[test]
fn the_requests_of_a_claim_are_validated() {
    let spec = json!({"devices": {
        "requests": [
            {"name": "a", "exactly": {"deviceClassName": "c", "tolerations": [{}]}},
            {"name": "a", "firstAvailable": [
                {"name": "s", "deviceClassName": "c"}, {"name": "s", "deviceClassName": "c"}]},
        ],
        "constraints": [
            {"requests": ["a", "b"], "matchAttribute": "d.io/1x"},
            {"requests": ["a/s"], "distinctAttribute": "x"},
            {"matchAttribute": "/x"},
            {},
        ],
        "config": [{"requests": ["a"], "opaque": {"driver": "d.io"}}],
    }});
    let mut claim = json!({ "spec": spec });
    (RESOURCE_CLAIM.defaults)(&mut claim);
    let found = listed(crate::validate(&RESOURCE_CLAIM, &claim, None));
    let at = "spec.devices";
    let begins = [
        format!("{at}.requests[0].exactly.tolerations[0].operator: Required value"),
        format!("{at}.requests[1].firstAvailable[1]: Duplicate value: \"s\""),
        format!("{at}.requests[1]: Duplicate value: \"a\""),
        format!(
            "{at}.constraints[0].requests[1]: Invalid value: \"b\": must be the name of a request"
        ),
        format!(
            "{at}.constraints[0].matchAttribute: Invalid value: \"1x\": a valid C identifier must"
        ),
        format!(
            "{at}.constraints[1].distinctAttribute: Invalid value: \"x\": a fully qualified name must be"
        ),
        format!(
            "{at}.constraints[2].matchAttribute: Invalid value: \"\": the domain must not be empty"
        ),
        format!(
            "{at}.constraints[3]: Required value: exactly one of \"matchAttribute\" or \"distinctAttribute\""
        ),
        format!("{at}.config[0].opaque.parameters: Required value"),
    ];
    for (found, expected) in found.iter().zip(&begins) {
        assert!(found.starts_with(expected), "{found} is not {expected}");
    }
    assert_eq!(found.len(), begins.len(), "{found:#?}");
    let fits = json!({"spec": {"devices": {"requests": [{"name": "a", "exactly": {"deviceClassName": "c"}}],
        "constraints": [{"requests": ["a"], "matchAttribute": "d.io/x"}],
        "config": [{"opaque": {"driver": "d.io", "parameters": {}}}]}}});
    let mut fits = fits;
    (RESOURCE_CLAIM.defaults)(&mut fits);
    assert!(listed(crate::validate(&RESOURCE_CLAIM, &fits, None)).is_empty());
}

/// Source: `pkg/apis/resource/validation/validation_resourceslice_test.go`.
#[test]
fn a_slice_has_one_kind_of_node_reference_and_unique_devices() {
    let refused = |spec: Value, old: Option<Value>| {
        let old = old.map(|old| json!({ "spec": old }));
        let new = json!({ "spec": spec });
        listed(crate::validate(&RESOURCE_SLICE, &new, old.as_ref()))
    };
    let slice = |more: Value| {
        let mut slice = json!({"driver": "d.io", "pool": {"name": "p/q", "resourceSliceCount": 1}});
        let members = slice.as_object_mut().unwrap();
        members.extend(more.as_object().unwrap().clone());
        slice
    };
    let good = slice(json!({"nodeName": "n", "devices": [{"name": "a"}, {"name": "b"}]}));
    assert!(refused(good.clone(), None).is_empty());
    assert!(refused(good.clone(), Some(good)).is_empty());
    let nodes = "exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required";
    assert_eq!(
        refused(slice(json!({"nodeName": "n", "allNodes": true})), None),
        [format!(
            "spec: Invalid value: \"{{`nodeName`, `allNodes`}}\": {nodes}, but multiple fields are set"
        )]
    );
    let odd = json!({"driver": "d.io", "pool": {"name": "p", "resourceSliceCount": 0, "generation": -1},
        "nodeName": "", "allNodes": false, "nodeSelector": {"nodeSelectorTerms": [{}, {}]}});
    assert_eq!(
        refused(odd, None),
        [
            "spec.pool.resourceSliceCount: Invalid value: 0: must be greater than zero",
            "spec.pool.generation: Invalid value: -1: must be greater than or equal to zero",
            "spec.nodeName: Invalid value: \"\": must be either unset or set to a non-empty string",
            "spec.nodeSelector.nodeSelectorTerms: Invalid value: [{\"MatchExpressions\":null,\"MatchFields\":null},{\"MatchExpressions\":null,\"MatchFields\":null}]: must have exactly one node selector term",
            "spec.allNodes: Invalid value: false: must be either unset or set to true",
        ]
    );
    let mut other = slice(json!({"nodeName": "n"}));
    other["pool"]["name"] = json!("o");
    assert_eq!(
        refused(other, Some(slice(json!({"nodeName": "m"})))),
        [
            "spec.pool.name: Invalid value: \"o\": field is immutable",
            "spec.nodeName: Invalid value: \"n\": field is immutable",
        ]
    );
    let devices = json!({"perDeviceNodeSelection": true, "devices": [
        {"name": "a", "allNodes": true, "taints": [{"key": "k", "value": "v", "effect": "Never"}, {"key": "k"}]},
        {"name": "a", "nodeName": "n", "allNodes": true},
        {"name": "c", "bindingConditions": ["b"]},
    ]});
    let device_nodes = "exactly one of `nodeName`, `nodeSelector`, or `allNodes` is required when `perDeviceNodeSelection` is set to true in the ResourceSlice spec";
    assert_eq!(
        refused(slice(devices), None),
        [
            "spec.devices[0].taints[0].effect: Unsupported value: \"Never\": supported values: \"NoExecute\", \"NoSchedule\", \"None\"".to_owned(),
            "spec.devices[0].taints[1].effect: Required value".to_owned(),
            format!("spec.devices[1]: Invalid value: \"{{`nodeName`, `allNodes`}}\": {device_nodes}"),
            format!("spec.devices[2]: Required value: {device_nodes}"),
            "spec.devices[2].bindingFailureConditions: Invalid value: null: bindingFailureConditions are required to use bindingConditions".to_owned(),
            "spec.devices[1]: Duplicate value: \"a\"".to_owned(),
        ]
    );
    let many = |count: usize, device: Value| {
        refused(
            slice(json!({"allNodes": true, "devices": vec![device; count]})),
            None,
        )
    };
    assert_eq!(
        many(129, json!({})),
        ["spec.devices: Too many: 129: must have at most 128 items"]
    );
    assert_eq!(
        many(65, json!({"taints": [{}]})),
        ["spec.devices: Too many: 65: must have at most 64 items"]
    );
    let own = slice(json!({"allNodes": true, "devices": [{"name": "a", "nodeName": "n"}]}));
    assert!(
        refused(own, None)[0]
            .contains("can only be set if `perDeviceNodeSelection` is set to true")
    );
}
