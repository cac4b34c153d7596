//! Machine: FlowSchemas and PriorityLevelConfigurations (upstream: `pkg/apis/flowcontrol`).

use std::collections::HashSet;

use serde_json::{Value, json};
use steersman_apimachinery::names::{self, NameRule};

use crate::Strategy;
use crate::fields::fill::{complete, complete_given, given, part};
use crate::fields::go_value::GoType::{self, Struct, Text};
use crate::fields::{FieldPath, check};

pub(crate) const FLOW_SCHEMA: Strategy = Strategy {
    defaults: |object| {
        let spec = json!({"matchingPrecedence": 1000, "priorityLevelConfiguration": {}});
        complete(object, json!({ "spec": spec }));
    },
    validate: |object, _| check_schema(object),
    validate_status: |object, _| check_conditions(object),
    ..Strategy::PLAIN
};

pub(crate) const PRIORITY_LEVEL: Strategy = Strategy {
    defaults: level_defaults,
    validate: |object, _| check_level(object),
    validate_status: |object, _| check_conditions(object),
    ..Strategy::PLAIN
};

fn check_conditions(object: &FieldPath<'_>) {
    let mut seen = HashSet::new();
    for condition in object.down("status.conditions").items() {
        let kind = condition.at("type");
        kind.unique(&mut seen);
        kind.need("must not be empty");
    }
}

const VERBS: &[&str] = &[
    "create", "delete", "deletecollection", "get", "list", "patch", "proxy", "update", "watch",
];
const MOST_PRECEDENCE: i64 = 10_000;
const MOST_QUEUES: i64 = 10_000_000;

fn level_defaults(object: &mut Value) {
    let Some(spec) = part(object, "spec") else {
        return;
    };
    let exempt = json!({"nominalConcurrencyShares": 0, "lendablePercent": 0});
    complete_given(spec, "exempt", exempt);
    let Some(limited) = given(spec, "limited") else {
        return;
    };
    let defaults = json!({"nominalConcurrencyShares": 30, "lendablePercent": 0});
    complete(limited, defaults);
    if let Some(response) = part(limited, "limitResponse") {
        let queuing = json!({"queues": 64, "handSize": 8, "queueLengthLimit": 50});
        complete_given(response, "queuing", queuing);
    }
}

const METHOD: GoType = Struct(&[("type", Text)]);

fn check_schema(root: &FieldPath<'_>) {
    let spec = root.at("spec");
    let precedence = spec.at("matchingPrecedence");
    precedence.at_least(1, "must be a positive value");
    let detail = format!("must not be greater than {MOST_PRECEDENCE}");
    precedence.at_most(MOST_PRECEDENCE, &detail);
    if precedence.int() == 1 && root.down("metadata.name").text() != "exempt" {
        precedence.invalid("only the schema named 'exempt' may have matchingPrecedence 1");
    }
    let known = &["ByNamespace", "ByUser"];
    let method = spec.at("distinguisherMethod");
    if method.is_set() && !known.contains(&method.at("type").text()) {
        // The error shows the whole method.
        let shown = method.printed(&METHOD);
        method.at("type").not_supported_written(&shown, known);
    }
    let level = spec.down("priorityLevelConfiguration.name");
    level.need("must reference a priority level");
    level.if_filled(check::subdomain);
    for rule in spec.at("rules").items() {
        let subjects = rule.at("subjects");
        subjects.need("subjects must contain at least one value");
        subjects.each(check_subject);
        let (resources, others) = (rule.at("resourceRules"), rule.at("nonResourceRules"));
        if resources.is_empty() && others.is_empty() {
            rule.required("at least one of resourceRules and nonResourceRules has to be non-empty");
        }
        resources.each(check_resources);
        others.each(check_paths);
    }
}

fn check_subject(subject: &FieldPath<'_>) {
    // Upstream refuses the fields of other kinds in this order.
    const KINDS: [(&str, &str); 3] = [
        ("ServiceAccount", "serviceAccount"),
        ("User", "user"),
        ("Group", "group"),
    ];
    let kind = subject.at("kind");
    let Some((named, own)) = KINDS.iter().find(|(named, _)| *named == kind.text()) else {
        return kind.not_supported(&["Group", "ServiceAccount", "User"]);
    };
    let at = subject.at(own);
    if at.need_set(&format!("{own} is required when subject kind is '{named}'")) {
        at.at("name").need("");
    }
    if *own == "serviceAccount" && at.is_set() {
        let (name, namespace) = (at.at("name"), at.at("namespace"));
        if !name.is_empty() && name.text() != "*" {
            check::subdomain(&name);
        }
        namespace.need("must specify namespace for service account");
        namespace.if_filled(|namespace| check::name(NameRule::Label, namespace));
    }
    for (named, field) in KINDS.iter().filter(|(_, field)| field != own) {
        let detail = format!("{field} is forbidden when subject kind is not '{named}'");
        subject.at(field).deny(&detail);
    }
}

/// Checks that a list has an element, and that `*` is the only one if present.
fn check_list(at: &FieldPath<'_>, lack: &str, what: &str) -> bool {
    let wild = at.items().any(|one| one.text() == "*");
    if at.is_empty() {
        at.required(lack);
    } else if wild && at.len() > 1 {
        at.invalid(&format!("if '*' is present, must not specify other {what}"));
    }
    wild || at.is_empty()
}

fn check_verbs(rule: &FieldPath<'_>) {
    let verbs = rule.at("verbs");
    let lack = "verbs must contain at least one value";
    let done = check_list(&verbs, lack, "verbs");
    if !done && verbs.items().any(|verb| !VERBS.contains(&verb.text())) {
        verbs.not_supported(VERBS);
    }
}

fn check_resources(rule: &FieldPath<'_>) {
    check_verbs(rule);
    let lack = "resource rules must supply at least one api group";
    check_list(&rule.at("apiGroups"), lack, "api groups");
    let lack = "resource rules must supply at least one resource";
    check_list(&rule.at("resources"), lack, "resources");
    let namespaces = rule.at("namespaces");
    if namespaces.is_empty() && rule.at("clusterScope").flag() {
        return;
    }
    let lack = "resource rules that are not cluster scoped must supply at least one namespace";
    if check_list(&namespaces, lack, "namespaces") {
        return;
    }
    for namespace in namespaces.items() {
        for wrong in names::check_label(namespace.text()) {
            let detail =
                format!("each member of this list must be '*' or a DNS-1123 label; {wrong}");
            namespace.invalid(&detail);
        }
    }
}

fn check_paths(rule: &FieldPath<'_>) {
    check_verbs(rule);
    let paths = rule.at("nonResourceURLs");
    let lack = "nonResourceURLs must contain at least one value";
    if check_list(&paths, lack, "non-resource URLs") {
        return;
    }
    for path in paths.items() {
        let text = path.text();
        if text.is_empty() {
            path.invalid("must not be empty");
        } else if text == "/" {
        } else if !text.starts_with('/') {
            path.invalid("must start with slash");
        } else if text.contains(' ') {
            path.invalid("must not contain white-space");
        } else if text.contains("//") {
            path.invalid("must not contain double slash");
        } else if text.strip_suffix("/*").unwrap_or(text).contains('*') {
            path.invalid("wildcard can only do suffix matching");
        }
    }
}

fn check_level(root: &FieldPath<'_>) {
    let spec = root.at("spec");
    let (kind, limited) = (spec.at("type"), spec.at("limited"));
    let exempt = root.down("metadata.name").text() == "exempt";
    if exempt != (kind.text() == "Exempt") {
        kind.invalid_text("type must be 'Exempt' if and only if name is 'exempt'");
    }
    match kind.text() {
        "Exempt" => limited.deny("must be nil if the type is not Limited"),
        "Limited" => {
            spec.at("exempt").deny("must be nil if the type is Limited");
            if limited.need_set("must not be empty when type is Limited") {
                check_limited(&limited);
            }
        }
        _ => kind.not_supported(&["Exempt", "Limited"]),
    }
}

fn check_limited(at: &FieldPath<'_>) {
    let shares = at.at("nominalConcurrencyShares");
    shares.at_least(0, "must be a non-negative integer");
    let percent = at.at("lendablePercent");
    if !(0..=100).contains(&percent.int()) {
        percent.invalid("must be between 0 and 100, inclusive");
    }
    let borrowed = at.at("borrowingLimitPercent");
    borrowed.if_set(|at| at.at_least(0, "if specified, must be a non-negative integer"));
    let response = at.at("limitResponse");
    let (kind, queuing) = (response.at("type"), response.at("queuing"));
    match kind.text() {
        "Reject" => queuing.deny("must be nil if limited.limitResponse.type is not Limited"),
        "Queue" if !queuing.is_set() => {
            queuing.required("must not be empty if limited.limitResponse.type is Limited");
        }
        "Queue" => check_queues(&queuing),
        _ => kind.not_supported(&["Queue", "Reject"]),
    }
}

fn check_queues(at: &FieldPath<'_>) {
    let [limit, queues, hand] = at.parts(["queueLengthLimit", "queues", "handSize"]);
    for at in [&limit, &queues] {
        at.at_least(1, "must be positive");
    }
    let detail = format!("must not be greater than {MOST_QUEUES}");
    queues.at_most(MOST_QUEUES, &detail);
    if hand.int() <= 0 {
        hand.invalid("must be positive");
    } else if hand.int() > queues.int() {
        let detail = format!("should not be greater than queues ({})", queues.int());
        hand.invalid(&detail);
    } else if !is_dealt(queues.int(), hand.int()) {
        let (deck, hand_size) = (queues.int(), hand.int());
        let detail = format!(
            "required entropy bits of deckSize {deck} and handSize {hand_size} should not be greater than {MOST_BITS}"
        );
        hand.invalid(&detail);
    }
}

/// Number of bits of a hash that shuffle sharding uses.
const MOST_BITS: u32 = 60;

/// Returns whether a hash has enough bits for a hand of queues (upstream: `RequiredEntropyBits`).
fn is_dealt(deck: i64, hand: i64) -> bool {
    let mut hands: u128 = 1;
    for _ in 0..hand {
        hands = hands.saturating_mul(u128::try_from(deck).unwrap_or_default());
        if hands > 1 << MOST_BITS {
            return false;
        }
        if deck <= 1 {
            break;
        }
    }
    true
}
