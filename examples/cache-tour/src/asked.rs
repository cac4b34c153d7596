//! Words: the requests that the server received, with equal requests counted together.

use steersman_testenv::apiserver::faults::RequestRecord;

use crate::page::Table;

/// Returns one row per kind of request, in the order of their first arrival.
pub(crate) fn table(log: &[RequestRecord]) -> Table {
    let mut rows: Vec<([String; 4], usize)> = Vec::new();
    for record in log {
        let row = row(record);
        match rows.iter_mut().find(|(known, _)| *known == row) {
            Some((_, times)) => *times += 1,
            None => rows.push((row, 1)),
        }
    }
    let head = Table::new([
        "asked of the server", "namespace", "selector", "answer", "times",
    ]);
    rows.iter().fold(head, |table, (row, times)| {
        let [what, namespace, selector, answer] = row;
        table.row([what, namespace, selector, answer, times])
    })
}

fn row(record: &RequestRecord) -> [String; 4] {
    let verb = record.verb.map_or(record.method.as_str(), |v| v.as_str());
    let place = match record.resource.as_str() {
        "" => record.path.as_str(),
        resource => resource,
    };
    let wanted = if record.is_metadata_only() {
        ", metadata alone"
    } else {
        ""
    };
    let selector = ["labelSelector", "fieldSelector"];
    let selector: Vec<&str> = selector
        .iter()
        .filter_map(|name| record.parameter(name))
        .collect();
    let namespace = match &record.namespace {
        Some(namespace) => namespace.clone(),
        None if record.resource.is_empty() => String::new(),
        None => "all".to_owned(),
    };
    // An open watch has a status, or gets one soon.
    let answer = match record.status {
        Some(status) => status.to_string(),
        None => "open".to_owned(),
    };
    let what = format!("{verb} {place}{wanted}");
    [what, namespace, selector.join(" "), answer]
}
