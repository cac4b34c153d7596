//! Machine: lists requests of the log by client, with filters, a page at a time.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::form::Form;
use super::revisions::RevisionView;
use crate::faults::RequestRecord;

/// The number of requests on a page.
const PAGE: usize = 100;

/// Maximum number of clients in the list of clients.
const MOST_CLIENTS: usize = 30;

/// A page of the log of requests, the newest first, and the clients that sent them.
#[derive(Debug, Serialize)]
pub(crate) struct RequestsView {
    pub(crate) filter: RequestFilter,
    /// The number of requests in the log.
    pub(crate) logged: usize,
    /// The number of older requests that the log has dropped.
    pub(crate) forgotten: u64,
    /// The number of logged requests that fit the filter, on all pages.
    pub(crate) fitting: usize,
    /// The clients with the most requests in the log, whatever the filter.
    pub(crate) clients: Vec<ClientRow>,
    pub(crate) requests: Vec<RequestRow>,
    /// The `before` of the next page; `None` on the last page.
    pub(crate) next: Option<u64>,
}

/// Which requests a page shows. An empty text fits every request.
#[derive(Debug, Clone, Default, Serialize)]
pub(crate) struct RequestFilter {
    /// A verb, or `write` for every request that may change an object.
    pub(crate) verb: String,
    /// The plural, with or without the group and the subresource, as in a fault.
    pub(crate) resource: String,
    pub(crate) namespace: String,
    /// A code such as `409`, a class such as `4xx`, or `open`.
    pub(crate) code: String,
    /// A part of the `User-Agent` or of the name of the user.
    pub(crate) client: String,
    /// A part of the path or of the name of the object.
    pub(crate) text: String,
    /// Only requests before this one.
    pub(crate) before: Option<u64>,
}

#[derive(Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ClientRow {
    pub(crate) user_agent: String,
    pub(crate) user: String,
    pub(crate) requests: usize,
    pub(crate) writes: usize,
    /// The number of requests that were answered with a code from 400 on.
    pub(crate) failures: usize,
    /// The number of requests without an answer, and of open watches.
    pub(crate) open: usize,
}

#[derive(Debug, Serialize)]
pub(crate) struct RequestRow {
    /// Whether the request waits for its answer, or is a watch that is open.
    pub(crate) open: bool,
    #[serde(flatten)]
    pub(crate) record: RequestRecord,
}

/// One request, and the revisions that it made.
#[derive(Debug, Serialize)]
pub(crate) struct RequestView {
    #[serde(flatten)]
    pub(crate) row: RequestRow,
    pub(crate) revisions: Vec<RevisionView>,
}

/// Collects a page from requests that come newest first.
#[derive(Debug)]
pub(crate) struct RequestPage {
    filter: RequestFilter,
    /// The requests of the open watches.
    watches: BTreeSet<u64>,
    logged: usize,
    fitting: usize,
    /// By `User-Agent` and user.
    clients: BTreeMap<String, BTreeMap<String, ClientRow>>,
    requests: Vec<RequestRow>,
    has_more: bool,
}

impl RequestFilter {
    pub(crate) fn of(form: &Form) -> Self {
        Self {
            verb: form.text("verb"),
            resource: form.text("resource"),
            namespace: form.text("namespace"),
            code: form.text("code"),
            client: form.text("client"),
            text: form.text("text"),
            before: form.number("before"),
        }
    }

    fn fits(&self, record: &RequestRecord, is_open: bool) -> bool {
        let same = |wanted: &str, found: &str| wanted.is_empty() || wanted == found;
        let name = record.name.as_deref().unwrap_or_default();
        self.fits_verb(record)
            && (self.resource.is_empty() || self.fits_resource(record))
            && same(
                &self.namespace,
                record.namespace.as_deref().unwrap_or_default(),
            )
            && self.fits_code(record, is_open)
            && (record.user_agent.contains(&self.client) || record.user.contains(&self.client))
            && (record.path.contains(&self.text) || name.contains(&self.text))
    }

    fn fits_verb(&self, record: &RequestRecord) -> bool {
        match self.verb.as_str() {
            "" => true,
            "write" => is_write(record),
            wanted => record.verb.is_some_and(|verb| verb.as_str() == wanted),
        }
    }

    /// Returns whether the request is for the resource; without a subresource in the filter, for any of its parts.
    fn fits_resource(&self, record: &RequestRecord) -> bool {
        if self.resource.contains('/') {
            return record.is_for(&self.resource);
        }
        match self.resource.split_once('.') {
            Some((plural, group)) => record.resource == plural && record.group == group,
            None => record.resource == self.resource,
        }
    }

    fn fits_code(&self, record: &RequestRecord, is_open: bool) -> bool {
        let code = self.code.as_str();
        match (code, code.strip_suffix("xx")) {
            ("", _) => true,
            ("open", _) => is_open,
            (_, Some(class)) => record
                .status
                .is_some_and(|status| (status / 100).to_string() == class),
            (code, None) => record
                .status
                .is_some_and(|status| status.to_string() == code),
        }
    }
}

impl RequestPage {
    pub(crate) fn new(filter: RequestFilter, watches: BTreeSet<u64>) -> Self {
        Self {
            filter,
            watches,
            logged: 0,
            fitting: 0,
            clients: BTreeMap::new(),
            requests: Vec::new(),
            has_more: false,
        }
    }

    /// Adds the next older request of the log.
    pub(crate) fn add(&mut self, record: &RequestRecord) {
        self.logged += 1;
        let open = RequestRow::is_open(record, &self.watches);
        self.count_client(record, open);
        if !self.filter.fits(record, open) {
            return;
        }
        self.fitting += 1;
        let is_before = |before: u64| record.sequence < before;
        if !self.filter.before.is_none_or(is_before) {
            return;
        }
        if self.requests.len() < PAGE {
            self.requests.push(RequestRow {
                open,
                record: record.clone(),
            });
        } else {
            self.has_more = true;
        }
    }

    pub(crate) fn view(self, forgotten: u64) -> RequestsView {
        let clients = self.clients.into_values();
        let mut clients: Vec<ClientRow> = clients.flat_map(BTreeMap::into_values).collect();
        clients.sort_by_key(|client| Reverse(client.requests));
        clients.truncate(MOST_CLIENTS);
        let last = self.requests.last().filter(|_| self.has_more);
        RequestsView {
            logged: self.logged,
            forgotten,
            fitting: self.fitting,
            clients,
            next: last.map(|row| row.record.sequence),
            requests: self.requests,
            filter: self.filter,
        }
    }

    fn count_client(&mut self, record: &RequestRecord, is_open: bool) {
        // Looks up by reference first: the log may have 100,000 requests, of few clients.
        let users = match self.clients.get_mut(&record.user_agent) {
            Some(users) => users,
            None => self.clients.entry(record.user_agent.clone()).or_default(),
        };
        let client = match users.get_mut(&record.user) {
            Some(client) => client,
            None => users
                .entry(record.user.clone())
                .or_insert_with(|| ClientRow::new(record)),
        };
        client.requests += 1;
        client.writes += usize::from(is_write(record));
        client.failures += usize::from(record.status.is_some_and(|status| status >= 400));
        client.open += usize::from(is_open);
    }
}

impl ClientRow {
    fn new(record: &RequestRecord) -> Self {
        Self {
            user_agent: record.user_agent.clone(),
            user: record.user.clone(),
            requests: 0,
            writes: 0,
            failures: 0,
            open: 0,
        }
    }
}

impl RequestRow {
    pub(crate) fn new(record: RequestRecord, watches: &BTreeSet<u64>) -> Self {
        Self {
            open: Self::is_open(&record, watches),
            record,
        }
    }

    fn is_open(record: &RequestRecord, watches: &BTreeSet<u64>) -> bool {
        record.status.is_none() || watches.contains(&record.sequence)
    }
}

/// Returns whether a request may have changed an object.
pub(crate) fn is_write(record: &RequestRecord) -> bool {
    record.verb.is_some() && !matches!(record.method.as_str(), "GET" | "HEAD")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::faults::Verb;

    fn record(sequence: u64, verb: Verb, resource: &str, status: Option<u16>) -> RequestRecord {
        RequestRecord {
            sequence,
            at: jiff::Timestamp::UNIX_EPOCH,
            method: if verb == Verb::Get { "GET" } else { "PUT" }.to_owned(),
            path: format!("/api/v1/{resource}/{sequence}"),
            parameters: Vec::new(),
            verb: Some(verb),
            group: String::new(),
            version: "v1".to_owned(),
            resource: resource.to_owned(),
            subresource: (verb == Verb::Update).then(|| "status".to_owned()),
            namespace: Some("default".to_owned()),
            name: Some(sequence.to_string()),
            user_agent: format!("client-{}", sequence % 2),
            accept: String::new(),
            user: "ann".to_owned(),
            groups: Vec::new(),
            impersonated_by: None,
            watch_list: false,
            status,
        }
    }

    fn page(query: &str, many: u64) -> RequestsView {
        let filter = RequestFilter::of(&Form::of_query(Some(query)));
        let mut page = RequestPage::new(filter, BTreeSet::from([2]));
        for sequence in (0..many).rev() {
            let (verb, resource, status) = match sequence % 4 {
                0 => (Verb::Get, "pods", Some(200)),
                1 => (Verb::Update, "pods", Some(409)),
                2 => (Verb::Get, "secrets", Some(200)),
                _ => (Verb::Update, "secrets", None),
            };
            page.add(&record(sequence, verb, resource, status));
        }
        page.view(0)
    }

    fn numbers(view: &RequestsView) -> Vec<u64> {
        view.requests
            .iter()
            .map(|row| row.record.sequence)
            .collect()
    }

    #[test]
    fn each_filter_selects_requests() {
        for (query, selected) in [
            ("", &[7, 6, 5, 4, 3, 2, 1, 0][..]),
            ("verb=update", &[7, 5, 3, 1]),
            ("verb=write&resource=pods", &[5, 1]),
            ("resource=pods", &[5, 4, 1, 0]),
            ("resource=pods/status", &[5, 1]),
            ("resource=pods.apps", &[]),
            ("namespace=default&code=4xx", &[5, 1]),
            ("namespace=other", &[]),
            ("code=200", &[6, 4, 2, 0]),
            ("code=open", &[7, 3, 2]),
            ("client=client-1", &[7, 5, 3, 1]),
            ("client=an", &[7, 6, 5, 4, 3, 2, 1, 0]),
            ("text=secrets/3", &[3]),
            ("verb=get&before=4", &[2, 0]),
        ] {
            assert_eq!(numbers(&page(query, 8)), selected, "{query}");
        }
    }

    #[test]
    fn pages_follow_each_other_and_clients_count_all_requests() {
        let first = page("", 250);
        assert_eq!((first.requests.len(), first.fitting), (PAGE, 250));
        let second = page(&format!("before={}", first.next.unwrap()), 250);
        assert_eq!((second.requests.len(), second.fitting), (PAGE, 250));
        let third = page(&format!("before={}", second.next.unwrap()), 250);
        assert_eq!((third.requests.len(), third.next), (50, None));
        let all = [numbers(&first), numbers(&second), numbers(&third)].concat();
        assert_eq!(all, (0..250).rev().collect::<Vec<_>>());
        let second_client = &third.clients[1];
        assert_eq!(
            (
                second_client.requests, second_client.writes, second_client.failures,
                second_client.open
            ),
            (125, 125, 63, 62)
        );
    }
}
