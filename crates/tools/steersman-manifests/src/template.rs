//! Machine: fills the facts about an operator into the template of a manifest.

use crate::operator::Operator;
use crate::yaml::scalar;

#[cfg(test)]
mod tests;

/// The placeholder of the only fact that is a number.
const REPLICAS: &str = "${replicas}";

/// Replaces `${name}`, `${namespace}`, `${version}`, `${framework}`, `${image}`, `${replicas}`, `${watched}`,
/// `${prometheus_namespace}`, `${prometheus_name}` and `${grafana_namespace}`. A fact that is a whole
/// value or list item is quoted where YAML needs it, because a name such as `123` or `true` is a text. A line that
/// starts with `?` and a condition (`watched`, `definitions`, `webhooks`, `certmanager`) is kept only if the condition
/// holds.
pub(crate) fn fill(template: &str, operator: &Operator) -> String {
    let account = operator.prometheus_account().unwrap_or_default();
    let grafana = operator.options.grafana_namespace.as_deref();
    let grafana = grafana.unwrap_or(&operator.namespace);
    let facts = [
        ("${name}", operator.name.clone()),
        ("${namespace}", operator.namespace.clone()),
        ("${version}", operator.description.version.clone()),
        ("${framework}", operator.description.framework.clone()),
        ("${image}", operator.image.clone()),
        (REPLICAS, operator.options.replicas.to_string()),
        ("${watched}", operator.options.namespaces.join(",")),
        ("${prometheus_namespace}", account.0.to_owned()),
        ("${prometheus_name}", account.1.to_owned()),
        ("${grafana_namespace}", grafana.to_owned()),
    ];
    let mut text = String::new();
    for line in template.lines() {
        let Some(line) = kept(line, operator) else {
            continue;
        };
        let mut line = line.to_owned();
        for (place, fact) in &facts {
            if *place != REPLICAS
                && let Some(start) = line.strip_suffix(place)
                && (start.ends_with(": ") || start.ends_with("- "))
            {
                line = start.to_owned() + &scalar(fact);
            }
            line = line.replace(place, fact);
        }
        text.push_str(&line);
        text.push('\n');
    }
    text
}

/// Returns a line without its condition; `None` if the condition is false.
fn kept<'a>(line: &'a str, operator: &Operator) -> Option<&'a str> {
    let conditions = [
        ("?watched", !operator.options.namespaces.is_empty()),
        ("?definitions", !operator.own.is_empty()),
        ("?webhooks", operator.has_webhook_server()),
        ("?certmanager", operator.uses_cert_manager()),
    ];
    for (condition, holds) in conditions {
        if let Some(line) = line.strip_prefix(condition) {
            return holds.then_some(line);
        }
    }
    Some(line)
}
