//! Machine: derives RBAC rules from the requests in the log of the embedded server.

use std::collections::BTreeSet;

use steersman_apiserver::ApiServer;
use steersman_apiserver::faults::{RequestRecord, Verb};

use crate::rbac_rules::RbacRules;
use crate::rest::AGENT;

/// The programs that send requests for the test itself, as the beginning of a `User-Agent` names them.
const TEST_AGENTS: [&str; 2] = [AGENT, "steersman-harness"];

/// Reviews of a user's own identity and permissions, which every authenticated user may make.
const OWN_REVIEWS: [(&str, &str); 3] = [
    ("authentication.k8s.io", "selfsubjectreviews"),
    ("authorization.k8s.io", "selfsubjectaccessreviews"),
    ("authorization.k8s.io", "selfsubjectrulesreviews"),
];

/// The subresources of Pods that a GET opens as a stream.
const STREAMS: [&str; 3] = ["exec", "attach", "portforward"];

type ObservedResource<'a> = (&'a str, &'a str, &'a str);

impl RbacRules {
    /// Returns the rules that the requests in the log of a server needed, of those that meet a condition.
    ///
    /// A refusal counts, too: the request needed the permission. These do not count:
    ///
    /// - the requests of the environment and of the harness, by their `User-Agent`;
    /// - documents, such as discovery, and reviews of a user's own permissions, which every user may ask for;
    /// - requests for a resource that the server does not serve.
    ///
    /// A PUT or patch that creates an object also needs `create`, and so does a GET that opens a stream to a Pod. A
    /// watch with initial objects also needs `list`, because a server without such watches is asked for a list.
    #[must_use]
    pub fn requested(server: &ApiServer, condition: impl Fn(&RequestRecord) -> bool) -> Self {
        let records = server.requests().all();
        // A resource with another answer than 404 was served then, even if its definition is gone.
        let is_served = |record: &&RequestRecord| record.status.is_some_and(|status| status != 404);
        let were_served: BTreeSet<ObservedResource<'_>> =
            records.iter().filter(is_served).map(resource).collect();
        let is_known = |record: &RequestRecord| {
            let (group, version, plural) = resource(record);
            were_served.contains(&(group, version, plural)) || server.serves(group, version, plural)
        };
        let mut rules = Self::default();
        for record in &records {
            if condition(record) && !is_of_test(record) && is_known(record) {
                rules.allow_request(record);
            }
        }
        rules
    }

    fn allow_request(&mut self, record: &RequestRecord) {
        let (group, _, plural) = resource(record);
        let is_own_review = OWN_REVIEWS.contains(&(group, plural));
        let Some(verb) = record.verb.filter(|_| !is_own_review) else {
            return;
        };
        // A permission for a subresource covers every path below it, such as that of a proxy.
        let part = record.subresource.as_deref();
        let part = part.and_then(|path| path.split('/').next());
        let name = part.map_or_else(|| plural.to_owned(), |part| format!("{plural}/{part}"));
        let verbs = [Some(verb), second_verb(verb, part, record)];
        for verb in verbs.into_iter().flatten() {
            self.allow(group, &name, verb.as_str());
        }
    }
}

/// Returns the resource of a request; all three texts are empty for a document.
fn resource(record: &RequestRecord) -> ObservedResource<'_> {
    (&record.group, &record.version, &record.resource)
}

/// Returns the further verb that a request needs, if any.
fn second_verb(verb: Verb, part: Option<&str>, record: &RequestRecord) -> Option<Verb> {
    let opens_stream = || {
        let is_stream = part.is_some_and(|part| STREAMS.contains(&part));
        is_stream && record.group.is_empty() && record.resource == "pods"
    };
    match verb {
        Verb::Update | Verb::Patch if record.status == Some(201) => Some(Verb::Create),
        Verb::Get if opens_stream() => Some(Verb::Create),
        Verb::Watch if record.watch_list => Some(Verb::List),
        _ => None,
    }
}

/// Returns whether a request is one of the environment or of the harness, by its `User-Agent`.
#[must_use]
pub fn is_of_test(record: &RequestRecord) -> bool {
    let program = record.user_agent.split(['/', ' ']).next();
    program.is_some_and(|program| TEST_AGENTS.contains(&program))
}
