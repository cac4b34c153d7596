//! Machine: counts answered requests, and prints them in Prometheus' text format under kube-apiserver's metric names.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use steersman_registry::Registry;

use crate::faults::{RequestRecord, Verb};

pub(crate) const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Maximum number of series, each with its own label values, because clients choose some of the values. Further
/// requests that need a new series are counted in a series with no label but the status code.
const MOST_SERIES: usize = 10_000;

/// The labels of one series: verb, group, version, resource, subresource, scope, and the HTTP code of the answer.
type Labels = ([String; 6], u16);

#[derive(Debug, Default)]
pub(crate) struct RequestCounts(BTreeMap<Labels, u64>);

impl RequestCounts {
    pub(crate) fn count(&mut self, record: &RequestRecord, code: u16) {
        let verb = match record.verb {
            Some(Verb::List) => "LIST",
            Some(Verb::Watch) => "WATCH",
            _ => record.method.as_str(),
        };
        let scope = match (&record.namespace, &record.name) {
            _ if record.resource.is_empty() => "",
            (_, Some(_)) => "resource",
            (Some(_), None) => "namespace",
            (None, None) => "cluster",
        };
        let subresource = record.subresource.as_deref().unwrap_or_default();
        let named = [
            verb,
            record.group.as_str(),
            record.version.as_str(),
            record.resource.as_str(),
            subresource,
            scope,
        ];
        let mut labels = (named.map(str::to_owned), code);
        if self.0.len() >= MOST_SERIES && !self.0.contains_key(&labels) {
            labels.0 = Default::default();
        }
        *self.0.entry(labels).or_default() += 1;
    }

    pub(crate) fn print(&self, registry: &Registry) -> String {
        let mut text = String::from(
            "# HELP apiserver_request_total Requests that were answered.\n\
             # TYPE apiserver_request_total counter\n",
        );
        for (([verb, group, version, resource, subresource, scope], code), count) in &self.0 {
            // Writing to a `String` cannot fail.
            let _ = writeln!(
                text,
                "apiserver_request_total{{code=\"{code}\",component=\"apiserver\",group=\"{}\",\
                 resource=\"{}\",scope=\"{scope}\",subresource=\"{}\",verb=\"{}\",version=\"{}\"}} \
                 {count}",
                escaped(group),
                escaped(resource),
                escaped(subresource),
                escaped(verb),
                escaped(version),
            );
        }
        text.push_str(
            "# HELP apiserver_resource_objects Objects that are stored.\n\
             # TYPE apiserver_resource_objects gauge\n",
        );
        for ((group, resource), count) in registry.object_counts() {
            let _ = writeln!(
                text,
                "apiserver_resource_objects{{group=\"{group}\",resource=\"{resource}\"}} {count}"
            );
        }
        text
    }
}

fn escaped(value: &str) -> String {
    value
        .replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_labels_are_escaped() {
        assert_eq!(escaped("a\"b\\c\nd"), "a\\\"b\\\\c\\nd");
    }
}
