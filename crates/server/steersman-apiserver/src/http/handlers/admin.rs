//! Machine: the endpoints below `/steersman/`, which control faults, the request log and restarts from other processes.
//!
//! Requests to these endpoints are neither logged nor affected by faults, so a fault can be removed (FAULT-3).

use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use steersman_apimachinery::status::Status;
use steersman_auth::{ANONYMOUS, MASTERS, User};
use steersman_registry::Registry;

use crate::faults::{FaultGuard, FaultSpec, History, RequestRecord, Restart, WatchMode};
use crate::http::context::Context;
use crate::http::requests::negotiate::Format;
use crate::http::requests::query::Query;
use crate::http::responses::reply::Reply;

const ROOT: &str = "/steersman/";

/// Default of the parameter `limit` of `GET /steersman/requests`: the maximum number of returned records.
const LISTED: usize = 1000;

/// Returns the part of a path below `/steersman/`; `None` for every other path.
pub(crate) fn below_root(path: &str) -> Option<&str> {
    path.strip_prefix(ROOT)
}

pub(crate) fn answer(
    context: &Arc<Context>,
    user: &User,
    (method, path): (&str, &str),
    query: &Query,
    body: &[u8],
) -> Reply {
    // If the server allows every request to every user, a client needs no credential for these endpoints either.
    let is_open = user.name == ANONYMOUS
        && context.with_registry(|registry| registry.authorizer().allows_all());
    if !is_open && !user.is_in(MASTERS) {
        let verb = method.to_lowercase();
        let name = &user.name;
        let message = format!("forbidden: User \"{name}\" cannot {verb} path \"{ROOT}{path}\"");
        return Reply::status(&Status::failure(403, "Forbidden", message), Format::Json);
    }
    let done = match (path, method) {
        ("faults", "GET") => Ok((200, json!({"items": context.faults.planned()}))),
        ("faults", "POST") => add(context, body),
        ("faults", "DELETE") => Ok((200, json!({"removed": context.faults.clear()}))),
        ("requests", "GET") => requests(context, query),
        ("requests", "DELETE") => {
            context.log.clear();
            Ok((200, json!({})))
        }
        ("compact", "POST") => {
            context.with_registry(Registry::compact);
            let revision = context.with_registry(|registry| registry.revision());
            Ok((200, json!({"revision": revision})))
        }
        ("restart", "POST") => restart(context, query),
        ("watches", "POST") => watches(context, query),
        ("faults" | "requests" | "compact" | "restart" | "watches", _) => {
            Err(Status::method_not_allowed())
        }
        _ => match path.strip_prefix("faults/").map(str::parse::<u64>) {
            Some(Ok(id)) if method == "DELETE" && context.faults.remove(id) => {
                Ok((200, json!({"removed": 1})))
            }
            Some(Ok(_)) if method != "DELETE" => Err(Status::method_not_allowed()),
            _ => Err(Status::no_such_path()),
        },
    };
    match done {
        Ok((code, document)) => Reply::document(code, &document, Format::Json),
        Err(status) => Reply::status(&status, Format::Json),
    }
}

type Done = Result<(u16, Value), Status>;

/// Plans the fault, or each fault of the list, in the body of a request. If one fault of a list is invalid, plans none
/// of them.
fn add(context: &Context, body: &[u8]) -> Done {
    let is_list = body.trim_ascii_start().starts_with(b"[");
    let read = if is_list {
        serde_json::from_slice(body)
    } else {
        serde_json::from_slice(body).map(|one: FaultSpec| vec![one])
    };
    let specs =
        read.map_err(|error| Status::bad_request(format!("the body is no fault: {error}")))?;
    let mut guards = Vec::new();
    for spec in specs {
        guards.push(context.faults.add(spec)?);
    }
    let ids: Vec<u64> = guards.iter().map(FaultGuard::id).collect();
    guards.into_iter().for_each(FaultGuard::keep);
    let mut planned = context.faults.planned();
    planned.retain(|fault| ids.contains(&fault.id));
    Ok(match planned.as_slice() {
        [one] if !is_list => (201, json!(one)),
        planned => (201, json!({"items": planned})),
    })
}

fn requests(context: &Context, query: &Query) -> Done {
    let filters = [
        "verb", "resource", "namespace", "name", "user", "userAgent", "limit",
    ];
    known(query, &filters)?;
    let limit = number(query, "limit")?.unwrap_or(LISTED);
    let same = |name: &str, found: Option<&str>| {
        query.get(name).is_none_or(|wanted| found == Some(wanted))
    };
    let meets = |name: &str, test: &dyn Fn(&str) -> bool| query.get(name).is_none_or(test);
    let fits = |record: &RequestRecord| {
        same("verb", record.verb.map(crate::faults::Verb::as_str))
            && meets("resource", &|resource| record.is_for(resource))
            && same("namespace", record.namespace.as_deref())
            && same("name", record.name.as_deref())
            && same("user", Some(&record.user))
            && meets("userAgent", &|part| record.user_agent.contains(part))
    };
    let found = context.log.matching(fits);
    let total = found.len();
    // Returns the newest `limit` records, the oldest of them first.
    let items = &found[total.saturating_sub(limit)..];
    let forgotten = context.log.forgotten();
    let listing = json!({"total": total, "forgotten": forgotten, "items": items});
    Ok((200, listing))
}

fn restart(context: &Context, query: &Query) -> Done {
    const PHASES: [&str; 3] = ["awayMillis", "installingMillis", "initializingMillis"];
    known(query, &["history", PHASES[0], PHASES[1], PHASES[2]])?;
    let history = match query.get("history") {
        None | Some("kept") => History::Kept,
        Some("lost") => History::Lost,
        Some(other) => {
            let message = format!("history is {other}, but must be kept or lost");
            return Err(Status::bad_request(message));
        }
    };
    let [away, installing, initializing] = PHASES.map(|name| {
        let millis = number(query, name)?.unwrap_or(0);
        Ok::<_, Status>(Duration::from_millis(millis))
    });
    let restart = Restart::new(history)
        .away(away?)
        .installing(installing?)
        .initializing(initializing?);
    Ok((200, json!({"cut": context.restart(restart)})))
}

fn watches(context: &Context, query: &Query) -> Done {
    known(query, &["do", "resource"])?;
    let mode = match query.get("do").unwrap_or_default() {
        "cut" => WatchMode::Cut,
        "break" => WatchMode::Broken,
        "silence" => WatchMode::Silent,
        "resume" => WatchMode::Live,
        "expire" => WatchMode::Expired,
        other => {
            let message =
                format!("do is \"{other}\", but must be cut, break, silence, resume or expire");
            return Err(Status::bad_request(message));
        }
    };
    let resource = query.get("resource").unwrap_or("*");
    let switched = context.faults.switch(mode, resource);
    Ok((200, json!({"switched": switched})))
}

fn number<N: FromStr>(query: &Query, name: &str) -> Result<Option<N>, Status> {
    let parse = |text: &str| {
        let why = |_| Status::bad_request(format!("{name} is {text}, but must be a number"));
        text.parse().map_err(why)
    };
    query.get(name).map(parse).transpose()
}

fn known(query: &Query, known: &[&str]) -> Result<(), Status> {
    let mut pairs = query.pairs().iter();
    let unknown = pairs.find(|(name, _)| !known.contains(&name.as_str()));
    match unknown {
        None => Ok(()),
        Some((name, _)) => {
            let known = known.join(", ");
            let message = format!("unknown parameter \"{name}\"; known ones are {known}");
            Err(Status::bad_request(message))
        }
    }
}
