//! Machine: the columns of kinds of admission, flow control, disruption budgets and quotas.

use serde_json::{Value, json};

use super::cells::{NONE, UNSET, at, is_set, list, number, plain, text, text_or};
use super::columns::{AGE, Columns, Heading, age, shown};

const PARAM_KIND: Heading = shown("ParamKind", "Kind of the policy's parameters.");

/// The columns of MutatingWebhookConfigurations and ValidatingWebhookConfigurations.
pub(super) const WEBHOOKS: Columns = Columns {
    headings: &[shown("Webhooks", "Number of webhooks.").integer(), AGE],
    row: |hooks, now| vec![list(hooks, &["webhooks"]).len().into(), age(hooks, now)],
};

/// The columns of ValidatingAdmissionPolicies.
pub(super) const VALIDATING: Columns = Columns {
    headings: &[
        shown("Validations", "Number of validations.").integer(),
        PARAM_KIND,
        AGE,
    ],
    row: |policy, now| {
        vec![
            list(policy, &["spec", "validations"]).len().into(),
            param_kind(policy).into(),
            age(policy, now),
        ]
    },
};

/// The columns of MutatingAdmissionPolicies.
pub(super) const MUTATING: Columns = Columns {
    headings: &[
        shown("Mutations", "Number of mutations.").integer(),
        PARAM_KIND,
        AGE,
    ],
    row: |policy, now| {
        vec![
            list(policy, &["spec", "mutations"]).len().into(),
            param_kind(policy).into(),
            age(policy, now),
        ]
    },
};

fn param_kind(policy: &Value) -> String {
    let kind = at(policy, &["spec", "paramKind"]).filter(|it| it.is_object());
    kind.map_or_else(
        || UNSET.to_owned(),
        |it| format!("{}/{}", text(it, &["apiVersion"]), text(it, &["kind"])),
    )
}

/// The columns of the bindings of admission policies.
pub(super) const POLICY_BINDINGS: Columns = Columns {
    headings: &[
        shown("PolicyName", "Name of the bound policy."),
        shown("ParamRef", "Parameters of the policy."),
        AGE,
    ],
    row: |binding, now| {
        let parameters = at(binding, &["spec", "paramRef"]).unwrap_or(&Value::Null);
        let name = text(parameters, &["name"]);
        let parameters = match text(parameters, &["namespace"]) {
            _ if name.is_empty() => UNSET.to_owned(),
            "" => format!("*/{name}"),
            namespace => format!("{namespace}/{name}"),
        };
        vec![
            text(binding, &["spec", "policyName"]).into(),
            parameters.into(),
            age(binding, now),
        ]
    },
};

/// The columns of FlowSchemas.
pub(super) const FLOW_SCHEMAS: Columns = Columns {
    headings: &[
        shown("PriorityLevel", "Level that the requests go to."),
        shown("MatchingPrecedence", "Rank among the schemas."),
        shown("DistinguisherMethod", "Property that distinguishes flows."),
        AGE,
        shown("MissingPL", "Whether the priority level does not exist."),
    ],
    row: |schema, now| {
        let dangling = list(schema, &["status", "conditions"])
            .iter()
            .find(|condition| condition["type"] == "Dangling");
        vec![
            text(schema, &["spec", "priorityLevelConfiguration", "name"]).into(),
            number(schema, &["spec", "matchingPrecedence"]).into(),
            text_or(schema, &["spec", "distinguisherMethod", "type"], NONE).into(),
            age(schema, now),
            dangling
                .map_or("?", |condition| text(condition, &["status"]))
                .into(),
        ]
    },
};

/// The columns of PriorityLevelConfigurations.
pub(super) const PRIORITY_LEVELS: Columns = Columns {
    headings: &[
        shown("Type", "Whether the level is limited."),
        shown("NominalConcurrencyShares", "Share of the server's seats."),
        shown("Queues", "Number of queues."),
        shown("HandSize", "Number of queues per flow."),
        shown("QueueLengthLimit", "Maximum number of requests in a queue."),
        AGE,
    ],
    row: |level, now| {
        let number = |path: &[&str]| at(level, path).cloned().unwrap_or_else(|| json!(NONE));
        let queuing =
            |member: &str| number(&["spec", "limited", "limitResponse", "queuing", member]);
        vec![
            text(level, &["spec", "type"]).into(),
            number(&["spec", "limited", "nominalConcurrencyShares"]),
            queuing("queues"),
            queuing("handSize"),
            queuing("queueLengthLimit"),
            age(level, now),
        ]
    },
};

/// The columns of PodDisruptionBudgets.
pub(super) const BUDGETS: Columns = Columns {
    headings: &[
        shown("Min Available", "Minimum number of available pods."),
        shown("Max Unavailable", "Maximum number of unavailable pods."),
        shown(
            "Allowed Disruptions",
            "Number of pods that may be evicted now.",
        )
        .integer(),
        AGE,
    ],
    row: |budget, now| {
        let bound = |name: &str| {
            let found = at(budget, &["spec", name]).filter(|bound| !bound.is_null());
            found.map_or_else(|| "N/A".to_owned(), plain).into()
        };
        vec![
            bound("minAvailable"),
            bound("maxUnavailable"),
            number(budget, &["status", "disruptionsAllowed"]).into(),
            age(budget, now),
        ]
    },
};

/// The columns of ResourceQuotas.
pub(super) const QUOTAS: Columns = Columns {
    headings: &[
        shown("Request", "Usage and bounds, without limits."),
        shown("Limit", "Usage and bounds of limits."),
        AGE,
    ],
    row: |quota, now| {
        let mut hard: Vec<(&String, String)> = at(quota, &["status", "hard"])
            .and_then(Value::as_object)
            .into_iter()
            .flatten()
            .map(|(name, bound)| {
                let used = at(quota, &["status", "used", name]).map_or("0".to_owned(), plain);
                (name, format!("{name}: {used}/{}", plain(bound)))
            })
            .collect();
        hard.sort_unstable();
        let (limits, requests): (Vec<_>, Vec<_>) = hard
            .into_iter()
            .partition(|(name, _)| name.starts_with("limits."));
        let join = |all: Vec<(&String, String)>| {
            let all: Vec<String> = all.into_iter().map(|(_, text)| text).collect();
            all.join(", ").into()
        };
        vec![join(requests), join(limits), age(quota, now)]
    },
};

/// The columns of APIServices.
pub(super) const API_SERVICES: Columns = Columns {
    headings: &[
        shown("Service", "Service that serves the group version."),
        shown("Available", "Whether the group version is available."),
        AGE,
    ],
    row: |service, now| {
        let target = if is_set(service, &["spec", "service"]) {
            let it = &service["spec"]["service"];
            format!("{}/{}", text(it, &["namespace"]), text(it, &["name"]))
        } else {
            "Local".to_owned()
        };
        let available = list(service, &["status", "conditions"])
            .iter()
            .find(|condition| condition["type"] == "Available");
        let available = available.map_or_else(
            || "Unknown".to_owned(),
            |condition| match text(condition, &["status"]) {
                "True" => "True".to_owned(),
                status => format!("{status} ({})", text(condition, &["reason"])),
            },
        );
        vec![target.into(), available.into(), age(service, now)]
    },
};
