//! Machine: FlowSchemas and PriorityLevelConfigurations (upstream: `pkg/apis/flowcontrol`).

use serde_json::{Value, json};
use steersman_apimachinery::names;
use steersman_apimachinery::names::NameRule;

use crate::Strategy;
use crate::fields::check;
use crate::fields::field_path::{Errors, FieldPath};
use crate::fields::fill::{given, part, set};

pub(crate) const FLOW_SCHEMA: Strategy = Strategy {
    defaults: |object| {
        if let Some(spec) = part(object, "spec") {
            set(spec, "matchingPrecedence", json!(1000));
            part(spec, "priorityLevelConfiguration");
        }
    },
    validate: |object, _| {
        let mut errors = Errors::default();
        check_schema(&FieldPath::root(object), &mut errors);
        errors
    },
    validate_status: |object, _| check_conditions(object),
    ..Strategy::PLAIN
};

pub(crate) const PRIORITY_LEVEL: Strategy = Strategy {
    defaults: level_defaults,
    validate: |object, _| {
        let mut errors = Errors::default();
        check_level(&FieldPath::root(object), &mut errors);
        errors
    },
    validate_status: |object, _| check_conditions(object),
    ..Strategy::PLAIN
};

/// Checks that conditions have types, and that no two types are equal.
fn check_conditions(object: &Value) -> Errors {
    let (mut errors, mut seen) = (Errors::default(), Vec::new());
    for condition in FieldPath::root(object).down("status.conditions").items() {
        let kind = condition.at("type");
        if seen.contains(&kind.text()) {
            errors.duplicate(&kind);
        }
        seen.push(kind.text());
        if kind.is_empty() {
            errors.required(&kind, "must not be empty");
        }
    }
    errors
}

const VERBS: &[&str] = &[
    "create",
    "delete",
    "deletecollection",
    "get",
    "list",
    "patch",
    "proxy",
    "update",
    "watch",
];
const MOST_PRECEDENCE: i64 = 10_000;
const MOST_QUEUES: i64 = 10_000_000;

fn level_defaults(object: &mut Value) {
    let Some(spec) = part(object, "spec") else {
        return;
    };
    if let Some(exempt) = given(spec, "exempt") {
        set(exempt, "nominalConcurrencyShares", json!(0));
        set(exempt, "lendablePercent", json!(0));
    }
    let Some(limited) = given(spec, "limited") else {
        return;
    };
    set(limited, "nominalConcurrencyShares", json!(30));
    set(limited, "lendablePercent", json!(0));
    if let Some(response) = part(limited, "limitResponse")
        && let Some(queuing) = given(response, "queuing")
    {
        set(queuing, "queues", json!(64));
        set(queuing, "handSize", json!(8));
        set(queuing, "queueLengthLimit", json!(50));
    }
}

fn check_schema(root: &FieldPath<'_>, errors: &mut Errors) {
    let spec = root.at("spec");
    let precedence = spec.at("matchingPrecedence");
    if precedence.int() <= 0 {
        errors.invalid(&precedence, "must be a positive value");
    }
    if precedence.int() > MOST_PRECEDENCE {
        let detail = format!("must not be greater than {MOST_PRECEDENCE}");
        errors.invalid(&precedence, &detail);
    }
    if precedence.int() == 1 && root.down("metadata.name").text() != "exempt" {
        let detail = "only the schema named 'exempt' may have matchingPrecedence 1";
        errors.invalid(&precedence, detail);
    }
    let method = spec.down("distinguisherMethod.type");
    if spec.at("distinguisherMethod").is_set() {
        let known = &["ByNamespace", "ByUser"];
        if !known.contains(&method.text()) {
            // The error shows the whole method.
            let shown = format!("{{\"Type\":{}}}", Value::from(method.text()));
            errors.not_supported_written(&method, &shown, known);
        }
    }
    let level = spec.down("priorityLevelConfiguration.name");
    if level.is_empty() {
        errors.required(&level, "must reference a priority level");
    } else {
        check::subdomain(&level, errors);
    }
    for rule in spec.at("rules").items() {
        let subjects = rule.at("subjects");
        if subjects.is_empty() {
            errors.required(&subjects, "subjects must contain at least one value");
        }
        for subject in subjects.items() {
            check_subject(&subject, errors);
        }
        let (resources, others) = (rule.at("resourceRules"), rule.at("nonResourceRules"));
        if resources.is_empty() && others.is_empty() {
            let detail = "at least one of resourceRules and nonResourceRules has to be non-empty";
            errors.required(&rule, detail);
        }
        for one in resources.items() {
            check_resources(&one, errors);
        }
        for one in others.items() {
            check_paths(&one, errors);
        }
    }
}

fn check_subject(subject: &FieldPath<'_>, errors: &mut Errors) {
    const KINDS: [(&str, &str); 3] = [
        ("Group", "group"),
        ("ServiceAccount", "serviceAccount"),
        ("User", "user"),
    ];
    let kind = subject.at("kind");
    let Some((named, own)) = KINDS.iter().find(|(named, _)| *named == kind.text()) else {
        errors.not_supported(&kind, &["Group", "ServiceAccount", "User"]);
        return;
    };
    let at = subject.at(own);
    if !at.is_set() {
        let detail = format!("{own} is required when subject kind is '{named}'");
        errors.required(&at, &detail);
    } else if at.at("name").is_empty() {
        errors.required(&at.at("name"), "");
    }
    if *own == "serviceAccount" && at.is_set() {
        let (name, namespace) = (at.at("name"), at.at("namespace"));
        if !name.is_empty() && name.text() != "*" {
            check::subdomain(&name, errors);
        }
        if namespace.is_empty() {
            errors.required(&namespace, "must specify namespace for service account");
        } else {
            check::name(NameRule::Label, &namespace, errors);
        }
    }
    // Upstream checks the other subject fields in this order.
    for field in ["serviceAccount", "user", "group"] {
        let (named, _) = KINDS
            .iter()
            .find(|(_, other)| *other == field)
            .unwrap_or(&("", ""));
        if field != *own && subject.at(field).is_set() {
            let detail = format!("{field} is forbidden when subject kind is not '{named}'");
            errors.forbidden(&subject.at(field), &detail);
        }
    }
}

/// Checks that a list has an element, and that `*` is the only one if present.
fn check_list(at: &FieldPath<'_>, lack: &str, what: &str, errors: &mut Errors) -> bool {
    let wild = at.items().any(|one| one.text() == "*");
    if at.is_empty() {
        errors.required(at, lack);
    } else if wild && at.len() > 1 {
        let detail = format!("if '*' is present, must not specify other {what}");
        errors.invalid(at, &detail);
    }
    wild || at.is_empty()
}

fn check_verbs(rule: &FieldPath<'_>, errors: &mut Errors) {
    let verbs = rule.at("verbs");
    let lack = "verbs must contain at least one value";
    let done = check_list(&verbs, lack, "verbs", errors);
    if !done && verbs.items().any(|verb| !VERBS.contains(&verb.text())) {
        errors.not_supported(&verbs, VERBS);
    }
}

fn check_resources(rule: &FieldPath<'_>, errors: &mut Errors) {
    check_verbs(rule, errors);
    let lack = "resource rules must supply at least one api group";
    check_list(&rule.at("apiGroups"), lack, "api groups", errors);
    let lack = "resource rules must supply at least one resource";
    check_list(&rule.at("resources"), lack, "resources", errors);
    let namespaces = rule.at("namespaces");
    if namespaces.is_empty() && rule.at("clusterScope").flag() {
        return;
    }
    let lack = "resource rules that are not cluster scoped must supply at least one namespace";
    if check_list(&namespaces, lack, "namespaces", errors) {
        return;
    }
    for namespace in namespaces.items() {
        for wrong in names::check_label(namespace.text()) {
            let detail =
                format!("each member of this list must be '*' or a DNS-1123 label; {wrong}");
            errors.invalid(&namespace, &detail);
        }
    }
}

fn check_paths(rule: &FieldPath<'_>, errors: &mut Errors) {
    check_verbs(rule, errors);
    let paths = rule.at("nonResourceURLs");
    let lack = "nonResourceURLs must contain at least one value";
    if check_list(&paths, lack, "non-resource URLs", errors) {
        return;
    }
    for path in paths.items() {
        let text = path.text();
        if text.is_empty() {
            errors.invalid(&path, "must not be empty");
        } else if text == "/" {
        } else if !text.starts_with('/') {
            errors.invalid(&path, "must start with slash");
        } else if text.contains(' ') {
            errors.invalid(&path, "must not contain white-space");
        } else if text.contains("//") {
            errors.invalid(&path, "must not contain double slash");
        } else if text.strip_suffix("/*").unwrap_or(text).contains('*') {
            errors.invalid(&path, "wildcard can only do suffix matching");
        }
    }
}

fn check_level(root: &FieldPath<'_>, errors: &mut Errors) {
    let spec = root.at("spec");
    let (kind, limited) = (spec.at("type"), spec.at("limited"));
    let exempt = root.down("metadata.name").text() == "exempt";
    if exempt != (kind.text() == "Exempt") {
        let detail = "type must be 'Exempt' if and only if name is 'exempt'";
        errors.invalid_text(&kind, detail);
    }
    match kind.text() {
        "Exempt" => {
            if limited.is_set() {
                errors.forbidden(&limited, "must be nil if the type is not Limited");
            }
        }
        "Limited" => {
            if spec.at("exempt").is_set() {
                let detail = "must be nil if the type is Limited";
                errors.forbidden(&spec.at("exempt"), detail);
            }
            if limited.is_set() {
                check_limited(&limited, errors);
            } else {
                let detail = "must not be empty when type is Limited";
                errors.required(&limited, detail);
            }
        }
        _ => errors.not_supported(&kind, &["Exempt", "Limited"]),
    }
}

fn check_limited(at: &FieldPath<'_>, errors: &mut Errors) {
    let shares = at.at("nominalConcurrencyShares");
    if shares.int() < 0 {
        errors.invalid(&shares, "must be a non-negative integer");
    }
    let percent = at.at("lendablePercent");
    if !(0..=100).contains(&percent.int()) {
        errors.invalid(&percent, "must be between 0 and 100, inclusive");
    }
    let borrowed = at.at("borrowingLimitPercent");
    if borrowed.is_set() && borrowed.int() < 0 {
        errors.invalid(&borrowed, "if specified, must be a non-negative integer");
    }
    let response = at.at("limitResponse");
    let (kind, queuing) = (response.at("type"), response.at("queuing"));
    match kind.text() {
        "Reject" => {
            if queuing.is_set() {
                let detail = "must be nil if limited.limitResponse.type is not Limited";
                errors.forbidden(&queuing, detail);
            }
        }
        "Queue" if !queuing.is_set() => {
            let detail = "must not be empty if limited.limitResponse.type is Limited";
            errors.required(&queuing, detail);
        }
        "Queue" => check_queues(&queuing, errors),
        _ => errors.not_supported(&kind, &["Queue", "Reject"]),
    }
}

fn check_queues(at: &FieldPath<'_>, errors: &mut Errors) {
    let (limit, queues, hand) = (
        at.at("queueLengthLimit"),
        at.at("queues"),
        at.at("handSize"),
    );
    for at in [&limit, &queues] {
        if at.int() <= 0 {
            errors.invalid(at, "must be positive");
        }
    }
    if queues.int() > MOST_QUEUES {
        let detail = format!("must not be greater than {MOST_QUEUES}");
        errors.invalid(&queues, &detail);
    }
    if hand.int() <= 0 {
        errors.invalid(&hand, "must be positive");
    } else if hand.int() > queues.int() {
        let detail = format!("should not be greater than queues ({})", queues.int());
        errors.invalid(&hand, &detail);
    } else if !is_dealt(queues.int(), hand.int()) {
        let (deck, hand_size) = (queues.int(), hand.int());
        let detail = format!(
            "required entropy bits of deckSize {deck} and handSize {hand_size} should not be greater than {MOST_BITS}"
        );
        errors.invalid(&hand, &detail);
    }
}

/// Number of bits of a hash that shuffle sharding uses.
const MOST_BITS: u32 = 60;

/// Returns whether a hash has enough bits to choose a hand of queues (upstream:
/// `RequiredEntropyBits`). The number of hands counts repetitions.
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
