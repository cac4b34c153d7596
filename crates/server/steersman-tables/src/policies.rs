//! Machine: the columns of kinds of admission, flow control, disruption budgets and quotas.

use serde_json::{Value, json};

use super::cells::{NONE, UNSET, at, condition, is_set, list, number, plain, text, text_or};
use super::columns::{AGE, Columns, Heading, shown};

const PARAM_KIND: Heading = shown("ParamKind", "Kind of the policy's parameters.");

pub(super) const WEBHOOKS: Columns = Columns {
    headings: &[shown("Webhooks", "Number of webhooks.").integer(), AGE],
    row: |hooks, _| json!([list(hooks, "webhooks").len()]),
};

pub(super) const VALIDATING: Columns = Columns {
    headings: &[
        shown("Validations", "Number of validations.").integer(),
        PARAM_KIND,
        AGE,
    ],
    row: |policy, _| json!([list(policy, "spec.validations").len(), param_kind(policy)]),
};

pub(super) const MUTATING: Columns = Columns {
    headings: &[
        shown("Mutations", "Number of mutations.").integer(),
        PARAM_KIND,
        AGE,
    ],
    row: |policy, _| json!([list(policy, "spec.mutations").len(), param_kind(policy)]),
};

fn param_kind(policy: &Value) -> String {
    let kind = at(policy, "spec.paramKind").filter(|it| it.is_object());
    kind.map_or_else(
        || UNSET.to_owned(),
        |it| format!("{}/{}", text(it, "apiVersion"), text(it, "kind")),
    )
}

pub(super) const POLICY_BINDINGS: Columns = Columns {
    headings: &[
        shown("PolicyName", "Name of the bound policy."),
        shown("ParamRef", "Parameters of the policy."),
        AGE,
    ],
    row: |binding, _| {
        let parameters = at(binding, "spec.paramRef").unwrap_or(&Value::Null);
        let name = text(parameters, "name");
        let parameters = match text(parameters, "namespace") {
            _ if name.is_empty() => UNSET.to_owned(),
            "" => format!("*/{name}"),
            namespace => format!("{namespace}/{name}"),
        };
        json!([text(binding, "spec.policyName"), parameters])
    },
};

pub(super) const FLOW_SCHEMAS: Columns = Columns {
    headings: &[
        shown("PriorityLevel", "Level that the requests go to."),
        shown("MatchingPrecedence", "Rank among the schemas."),
        shown("DistinguisherMethod", "Property that distinguishes flows."),
        AGE,
        shown("MissingPL", "Whether the priority level does not exist."),
    ],
    row: |schema, _| {
        let dangling = condition(schema, "Dangling");
        json!([
            text(schema, "spec.priorityLevelConfiguration.name"),
            number(schema, "spec.matchingPrecedence"),
            text_or(schema, "spec.distinguisherMethod.type", NONE),
            dangling.map_or("?", |condition| text(condition, "status"))
        ])
    },
};

pub(super) const PRIORITY_LEVELS: Columns = Columns {
    headings: &[
        shown("Type", "Whether the level is limited."),
        shown("NominalConcurrencyShares", "Share of the server's seats."),
        shown("Queues", "Number of queues."),
        shown("HandSize", "Number of queues per flow."),
        shown("QueueLengthLimit", "Maximum number of requests in a queue."),
        AGE,
    ],
    row: |level, _| {
        let limited = &level["spec"]["limited"];
        let number = |path: &str| at(limited, path).cloned().unwrap_or_else(|| json!(NONE));
        json!([
            text(level, "spec.type"),
            number("nominalConcurrencyShares"),
            number("limitResponse.queuing.queues"),
            number("limitResponse.queuing.handSize"),
            number("limitResponse.queuing.queueLengthLimit")
        ])
    },
};

pub(super) const BUDGETS: Columns = Columns {
    headings: &[
        shown("Min Available", "Minimum number of available pods."),
        shown("Max Unavailable", "Maximum number of unavailable pods."),
        shown("Allowed Disruptions", "Pods that may be evicted now.").integer(),
        AGE,
    ],
    row: |budget, _| {
        let bound = |name: &str| {
            let found = Some(&budget["spec"][name]).filter(|bound| !bound.is_null());
            found.map_or_else(|| "N/A".to_owned(), plain)
        };
        json!([
            bound("minAvailable"),
            bound("maxUnavailable"),
            number(budget, "status.disruptionsAllowed")
        ])
    },
};

pub(super) const QUOTAS: Columns = Columns {
    headings: &[
        shown("Request", "Usage and bounds, without limits."),
        shown("Limit", "Usage and bounds of limits."),
        AGE,
    ],
    row: |quota, _| {
        let mut hard: Vec<(&String, String)> = at(quota, "status.hard")
            .and_then(Value::as_object)
            .into_iter()
            .flatten()
            .map(|(name, bound)| {
                let used = quota["status"]["used"]
                    .get(name)
                    .map_or("0".to_owned(), plain);
                (name, format!("{name}: {used}/{}", plain(bound)))
            })
            .collect();
        hard.sort_unstable();
        let (limits, requests): (Vec<_>, Vec<_>) = hard
            .into_iter()
            .partition(|(name, _)| name.starts_with("limits."));
        let join = |all: Vec<(&String, String)>| {
            let all: Vec<String> = all.into_iter().map(|(_, text)| text).collect();
            all.join(", ")
        };
        json!([join(requests), join(limits)])
    },
};

pub(super) const API_SERVICES: Columns = Columns {
    headings: &[
        shown("Service", "Service that serves the group version."),
        shown("Available", "Whether the group version is available."),
        AGE,
    ],
    row: |service, _| {
        let target = if is_set(service, "spec.service") {
            let it = &service["spec"]["service"];
            format!("{}/{}", text(it, "namespace"), text(it, "name"))
        } else {
            "Local".to_owned()
        };
        let available = condition(service, "Available");
        let available = available.map_or_else(
            || "Unknown".to_owned(),
            |condition| match text(condition, "status") {
                "True" => "True".to_owned(),
                status => format!("{status} ({})", text(condition, "reason")),
            },
        );
        json!([target, available])
    },
};
