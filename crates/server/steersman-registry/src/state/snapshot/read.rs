//! Machine: parses the text of a snapshot, and refuses anything that this server would not keep (SRV-SNAP-4).

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use serde_json::{Map, Value};
use steersman_apimachinery::json::duplicates;
use steersman_auth::{TokenSecret, Tokens};
use steersman_schema::builtin::built_in;
use steersman_schema::resource::StorageKey;
use steersman_store::Stored;

use super::super::recorder::Counters;
use super::{FORMAT, Snapshot, SnapshotError};

const DEFINITIONS: &str = "customresourcedefinitions.apiextensions.k8s.io";

type Storages = Vec<(StorageKey, Vec<Arc<Stored>>)>;

/// A JSON object in a snapshot. The parser takes its fields out one by one; a field that is left at the end is unknown
/// to this server, and an error.
struct SnapshotPart {
    place: &'static str,
    members: Map<String, Value>,
}

pub(super) fn read(text: &[u8]) -> Result<Snapshot, SnapshotError> {
    let whole: Value = serde_json::from_slice(text)?;
    let mut whole = SnapshotPart::of("", whole)?;
    match whole.take("format") {
        Some(Value::String(format)) if format == FORMAT => {}
        found => {
            let found = found.unwrap_or_default();
            let found = found.as_str().map_or(found.to_string(), str::to_owned);
            return Err(SnapshotError::Format { found });
        }
    }
    if let Some(place) = duplicates::find(text).into_iter().next() {
        return Err(problem(place, "the member occurs twice"));
    }
    let revision = whole.take("revision");
    let revision = revision.ok_or_else(|| whole.problem("revision", "the member is missing"))?;
    let revision = whole.number("revision", &revision)?;
    let objects = whole.take("objects");
    let objects = objects.ok_or_else(|| whole.problem("objects", "the member is missing"))?;
    // The first releases wrote neither `counters` nor `credentials`.
    let mut counters = whole.part("counters")?;
    let mut credentials = whole.part("credentials")?;
    let (key, tokens) = read_credentials(&mut credentials)?;
    let snapshot = Snapshot {
        revision,
        counters: Counters {
            random: counters.counter("random")?,
            addresses: counters.counter("addresses")?,
            node_ports: counters.counter("node_ports")?,
        },
        transactions: counters.counter("transactions")?,
        key,
        tokens,
        storages: read_objects(SnapshotPart::of("objects", objects)?, revision)?,
    };
    for part in [whole, counters, credentials] {
        part.finish()?;
    }
    Ok(snapshot)
}

fn read_credentials(
    credentials: &mut SnapshotPart,
) -> Result<(Option<TokenSecret>, Tokens), SnapshotError> {
    let key = match credentials.take("key") {
        None => None,
        Some(Value::String(text)) if text.is_empty() => None,
        Some(Value::String(text)) => match TokenSecret::from_text(&text) {
            Some(key) => Some(key),
            None => return Err(credentials.problem("key", "the text is no key")),
        },
        Some(_) => return Err(credentials.problem("key", "the value is no text")),
    };
    let tokens = match credentials.take("tokens") {
        None => Tokens::default(),
        Some(Value::Object(tokens)) => Tokens::from_json(&tokens).map_err(|(number, why)| {
            let place = format!("credentials.tokens, token {number} (from 0)");
            problem(place, why)
        })?,
        Some(_) => return Err(credentials.problem("tokens", "the value is no object")),
    };
    Ok((key, tokens))
}

fn read_objects(objects: SnapshotPart, newest: u64) -> Result<Storages, SnapshotError> {
    let scopes = scopes(&objects.members);
    let mut storages = Vec::with_capacity(objects.members.len());
    for (storage, list) in objects.members {
        let place = || format!("objects[{storage:?}]");
        let Value::Array(list) = list else {
            return Err(problem(place(), "the value is no list"));
        };
        let scope = scopes.get(&storage).copied();
        // The storage of a deleted CRD may be in the snapshot, without objects. Its scope is unknown, and not needed.
        if scope.is_none() && !list.is_empty() {
            let why = "neither the server nor a definition in the snapshot has this kind";
            return Err(problem(place(), why));
        }
        let namespaced = scope.unwrap_or_default();
        let mut kept: Vec<Arc<Stored>> = Vec::with_capacity(list.len());
        let mut keys = HashSet::with_capacity(list.len());
        for (number, object) in list.into_iter().enumerate() {
            let stored = stored(object, newest, namespaced).and_then(|stored| {
                let key = (Arc::clone(&stored.namespace), Arc::clone(&stored.name));
                let is_new = keys.insert(key);
                is_new
                    .then_some(stored)
                    .ok_or("an earlier object has the same name")
            });
            kept.push(Arc::new(stored.map_err(|problem| {
                SnapshotError::Object {
                    storage: storage.clone(),
                    number,
                    problem,
                }
            })?));
        }
        storages.push((StorageKey::parse(&storage), kept));
    }
    Ok(storages)
}

/// Returns, for each storage of a built-in kind or of a CRD in the snapshot, whether its objects have a namespace.
fn scopes(objects: &Map<String, Value>) -> HashMap<String, bool> {
    let built_in = built_in();
    let own = built_in
        .iter()
        .map(|kind| (kind.storage.as_str().to_owned(), kind.namespaced));
    let definitions = objects.get(DEFINITIONS).and_then(Value::as_array);
    let defined = definitions.into_iter().flatten().filter_map(|definition| {
        let name = definition["metadata"]["name"].as_str()?;
        Some((name.to_owned(), definition["spec"]["scope"] == "Namespaced"))
    });
    defined.chain(own).collect()
}

fn stored(object: Value, newest: u64, namespaced: bool) -> Result<Stored, &'static str> {
    let metadata = object["metadata"].as_object();
    let metadata = metadata.ok_or("the object has no metadata")?;
    let text = |member: &str| metadata.get(member).map(Value::as_str);
    let name = text("name").flatten().filter(|name| !name.is_empty());
    let name = name.ok_or("the object has no name")?;
    let revision: u64 = text("resourceVersion")
        .flatten()
        .and_then(|version| version.parse().ok())
        .filter(|revision| (1..=newest).contains(revision))
        .ok_or("its resource version is above the snapshot's revision or invalid")?;
    let namespace = text("namespace").unwrap_or(Some(""));
    let namespace = namespace.ok_or("its namespace is no text")?;
    if namespace.is_empty() == namespaced {
        return Err("its namespace is missing, or its kind is cluster-scoped and has none");
    }
    let managed = metadata.get("managedFields");
    if managed.is_some_and(|managed| !managed.is_array()) {
        return Err("its managedFields are no list");
    }
    let (namespace, name) = (namespace.into(), name.into());
    let read = Stored::new(namespace, name, object, revision);
    // Serialises the object now: otherwise it would stay decoded in memory until its first read (SRV-STORE-7).
    read.serialise();
    Ok(read.folded())
}

fn problem(place: impl Into<String>, problem: &str) -> SnapshotError {
    let (place, problem) = (place.into(), problem.to_owned());
    SnapshotError::Part { place, problem }
}

// === impl SnapshotPart ===

impl SnapshotPart {
    fn of(place: &'static str, value: Value) -> Result<Self, SnapshotError> {
        match value {
            Value::Object(members) => Ok(Self { place, members }),
            _ if place.is_empty() => Err(problem("text", "the value is no object")),
            _ => Err(problem(place, "the value is no object")),
        }
    }

    fn take(&mut self, member: &str) -> Option<Value> {
        self.members.remove(member)
    }

    /// Takes out a field that is a JSON object; an absent field counts as an empty object.
    fn part(&mut self, member: &'static str) -> Result<Self, SnapshotError> {
        let value = self.take(member);
        Self::of(member, value.unwrap_or_else(|| Value::Object(Map::new())))
    }

    /// Takes out a field that is a number; an absent field counts as 0.
    fn counter<N: TryFrom<u64> + Default>(&mut self, member: &str) -> Result<N, SnapshotError> {
        match self.take(member) {
            None => Ok(N::default()),
            Some(value) => self.number(member, &value),
        }
    }

    fn number<N: TryFrom<u64>>(&self, member: &str, value: &Value) -> Result<N, SnapshotError> {
        let number = value.as_u64().and_then(|number| N::try_from(number).ok());
        number.ok_or_else(|| self.problem(member, &format!("{value} is no number in range")))
    }

    fn problem(&self, member: &str, why: &str) -> SnapshotError {
        let place = match self.place {
            "" => member.to_owned(),
            place => format!("{place}.{member}"),
        };
        problem(place, why)
    }

    /// Fails if a field was not taken out, because this server does not know it and would lose it (SRV-SNAP-4).
    fn finish(self) -> Result<(), SnapshotError> {
        match self.members.keys().next() {
            None => Ok(()),
            Some(member) => Err(self.problem(member, "the member is unknown to this server")),
        }
    }
}
