//! Driver: checks on all cores that random objects survive conversions to other versions and back.

use std::panic::resume_unwind;
use std::thread;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde_json::Value;
use steersman_object::{json_items, json_text};
use steersman_testenv::seeds::SeededRng;
use steersman_webhook::{ConversionError, Conversions};
use thiserror::Error;

use crate::random_object;

/// A check of conversions with random objects.
///
/// Objects are made from the schemas of the definition, with the API server's defaults. Each object is converted to
/// every other version and back, and one in ten through several versions. An object depends only on its seed, so that a
/// failure can be repeated.
///
/// Kept fields hide a field that a conversion forgets. To find such fields, check [`Conversions::without_kept_fields`],
/// and remove the fields that another version cannot hold in [`adjust`](Self::adjust).
///
/// ```
/// # use kube_derive::CustomResource;
/// # use schemars::JsonSchema;
/// # use serde::{Deserialize, Serialize};
/// # use kube_core::CustomResourceExt as _;
/// # #[derive(CustomResource, Serialize, Deserialize, Clone, Debug, JsonSchema)]
/// # #[kube(group = "example.com", version = "v1", kind = "Site", crates(kube_core = "kube_core"))]
/// # pub struct SiteSpec { host: String }
/// # mod v1alpha1 {
/// #     use kube_derive::CustomResource;
/// #     use schemars::JsonSchema;
/// #     use serde::{Deserialize, Serialize};
/// #     #[derive(CustomResource, Serialize, Deserialize, Clone, Debug, JsonSchema)]
/// #     #[kube(group = "example.com", version = "v1alpha1", kind = "Site", crates(kube_core = "kube_core"))]
/// #     pub struct SiteSpec { pub domain: String }
/// # }
/// # use steersman_webhook::{BoxError, Spoke};
/// # impl Spoke for v1alpha1::Site {
/// #     type Hub = Site;
/// #     fn to_hub(&self) -> Result<Site, BoxError> {
/// #         let spec = SiteSpec { host: self.spec.domain.clone() };
/// #         Ok(Site { metadata: self.metadata.clone(), spec })
/// #     }
/// #     fn from_hub(hub: &Site) -> Result<Self, BoxError> {
/// #         let spec = v1alpha1::SiteSpec { domain: hub.spec.host.clone() };
/// #         Ok(Self { metadata: hub.metadata.clone(), spec })
/// #     }
/// # }
/// use kube_core::crd::merge_crds;
/// use steersman_harness::RoundTrips;
/// use steersman_webhook::Conversions;
///
/// let definition = merge_crds(vec![v1alpha1::Site::crd(), Site::crd()], "v1").unwrap();
/// let conversions = Conversions::new().hub::<Site>().spoke::<v1alpha1::Site>();
/// RoundTrips::new(&definition, &conversions).objects(500).check().unwrap();
/// ```
#[derive(derive_more::Debug)]
#[debug(
    "RoundTrips {{ definition: {:?}, conversions: {conversions:?}, objects: {objects}, \
     seed: {seed}, .. }}",
    definition["metadata"]["name"]
)]
#[must_use]
pub struct RoundTrips {
    definition: Value,
    conversions: Conversions,
    objects: u64,
    seed: u64,
    adjust: Option<Adjust>,
}

/// Changes each object before its conversion.
type Adjust = Box<dyn Fn(&mut Value) + Sync>;

/// The error of a check: an object does not survive its conversions.
#[derive(Clone, Debug, PartialEq, Error)]
#[error(
    "the object of seed {seed} {problem} along {way}\n\
     Repeat it with `.seed({seed}).objects(1)`. The object: {object}"
)]
#[non_exhaustive]
pub struct RoundTripError {
    /// The seed of the object.
    pub seed: u64,
    /// The versions through which the object was converted.
    pub way: Way,
    /// The object before the conversions.
    pub object: Value,
    /// Why the check fails.
    #[source]
    pub problem: Box<RoundTripProblem>,
}

/// The reason why a check of conversions fails.
#[derive(Clone, Debug, PartialEq, Error)]
#[non_exhaustive]
pub enum RoundTripProblem {
    /// The object cannot be converted.
    #[error(
        "cannot be converted, so the schema permits a value that a conversion refuses; narrow the schema or change the \
         objects with `adjust` ({0})"
    )]
    Failed(ConversionError),
    /// The object differs after the conversions.
    #[error("is not the same ({path} was {before} and is {after})")]
    Differs {
        /// The field that differs.
        path: String,
        /// The value of the field before the conversions; null if it was absent.
        before: Value,
        /// The value of the field after the conversions; null if it is absent.
        after: Value,
    },
}

/// The versions through which an object was converted.
#[derive(Clone, Debug, PartialEq, Eq, derive_more::Display)]
#[display("{}", _0.join(" → "))]
pub struct Way(Vec<String>);

impl RoundTrips {
    /// Makes a check of 1000 objects, with seeds from 0.
    pub fn new(definition: &CustomResourceDefinition, conversions: &Conversions) -> Self {
        Self {
            definition: serde_json::to_value(definition).unwrap_or_default(),
            conversions: conversions.clone(),
            objects: 1000,
            seed: 0,
            adjust: None,
        }
    }

    /// Sets the number of objects.
    pub fn objects(mut self, objects: u64) -> Self {
        self.objects = objects;
        self
    }

    /// Sets the seed of the first object. Each further object has the next seed.
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// Changes each object before its conversion, to satisfy rules that the schema does not state.
    pub fn adjust(mut self, adjust: impl Fn(&mut Value) + Sync + 'static) -> Self {
        self.adjust = Some(Box::new(adjust));
        self
    }

    /// Converts all objects. A definition with a single version has nothing to convert.
    ///
    /// # Errors
    ///
    /// The first object that cannot be converted, or differs afterwards.
    ///
    /// # Panics
    ///
    /// If a conversion panics.
    pub fn check(&self) -> Result<(), RoundTripError> {
        let versions: Vec<&Value> = json_items(&self.definition["spec"]["versions"]).collect();
        if versions.is_empty() {
            return Ok(());
        }
        let threads = thread::available_parallelism().map_or(1, |count| count.get());
        // Each thread reports the first failure among its objects, and the lowest seed of these is the first overall.
        let failures = thread::scope(|scope| {
            let versions = &*versions;
            let running: Vec<_> = (0..threads)
                .map(|first| {
                    let mut own = (0..self.objects).skip(first).step_by(threads);
                    let failure = move |at| {
                        let seed = self.seed.wrapping_add(at);
                        Some((at, self.check_object(seed, versions).err()?))
                    };
                    scope.spawn(move || own.find_map(failure))
                })
                .collect();
            let ended = running.into_iter().map(|thread| match thread.join() {
                Ok(failure) => failure,
                Err(panic) => resume_unwind(panic),
            });
            ended.flatten().collect::<Vec<_>>()
        });
        let first = failures.into_iter().min_by_key(|(at, _)| *at);
        first.map_or(Ok(()), |(_, error)| Err(error))
    }

    /// Converts the object with this seed along its ways.
    fn check_object(&self, seed: u64, versions: &[&Value]) -> Result<(), RoundTripError> {
        let mut rng = SeededRng::new(seed);
        let home = versions[rng.index(versions.len())];
        let mut object = random_object::object(&self.definition, home, &mut rng);
        if let Some(adjust) = &self.adjust {
            adjust(&mut object);
        }
        let others = versions.iter().filter(|version| **version != home);
        for other in others {
            self.check_way(seed, &object, &[home, other, home])?;
        }
        if !rng.chance(10) {
            return Ok(());
        }
        let mut way = vec![home];
        for _ in 0..2 + rng.below(3) {
            way.push(versions[rng.index(versions.len())]);
        }
        way.push(home);
        self.check_way(seed, &object, &way)
    }

    /// Converts an object through these versions, of which the last is its own.
    fn check_way(
        &self,
        seed: u64,
        original: &Value,
        versions: &[&Value],
    ) -> Result<(), RoundTripError> {
        let group = json_text(&self.definition["spec"]["group"]);
        let names = versions
            .iter()
            .filter_map(|version| version["name"].as_str());
        let names: Vec<String> = names.map(str::to_owned).collect();
        let failed = |problem| RoundTripError {
            seed,
            way: Way(names.clone()),
            object: original.clone(),
            problem: Box::new(problem),
        };
        let encoded = self.conversions.encoded(original);
        let encoded = encoded.map_err(|error| failed(RoundTripProblem::Failed(error)))?;
        let mut object = original.clone();
        for name in names.iter().skip(1) {
            let version = format!("{group}/{name}");
            let converted = self.conversions.convert(&object, &version);
            object = converted.map_err(|error| failed(RoundTripProblem::Failed(error)))?;
        }
        difference(original, &encoded, &object, "").map_or(Ok(()), |problem| Err(failed(problem)))
    }
}

/// Returns the first field of `back` that is neither what it was nor what its type makes of it. `encoded` is the
/// original object as its type encodes it: in another notation, with defaults, without empty values.
fn difference(
    original: &Value,
    encoded: &Value,
    back: &Value,
    path: &str,
) -> Option<RoundTripProblem> {
    if original == back {
        return None;
    }
    let absent = &Value::Null;
    match (original, back) {
        (Value::Object(before), Value::Object(after)) => {
            let added = after.keys().filter(|name| !before.contains_key(*name));
            before.keys().chain(added).find_map(|name| {
                let [before, after] = [before, after].map(|all| all.get(name).unwrap_or(absent));
                let dot = if path.is_empty() { "" } else { "." };
                let path = format!("{path}{dot}{name}");
                difference(before, &encoded[name.as_str()], after, &path)
            })
        }
        (Value::Array(before), Value::Array(after)) if before.len() == after.len() => {
            let pairs = before.iter().zip(after).enumerate();
            pairs.into_iter().find_map(|(at, (before, after))| {
                let encoded = encoded.get(at).unwrap_or(absent);
                difference(before, encoded, after, &format!("{path}[{at}]"))
            })
        }
        // This check comes last, because an equal object may still lack unknown fields of the original.
        _ if encoded == back && (!back.is_null() || is_empty(original)) => None,
        _ => Some(RoundTripProblem::Differs {
            path: path.to_owned(),
            before: original.clone(),
            after: back.clone(),
        }),
    }
}

/// Returns whether a type may omit a value as empty.
fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(is_set) => !is_set,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        Value::Array(elements) => elements.is_empty(),
        Value::Object(members) => members.is_empty(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_difference_is_a_lost_changed_or_new_field() {
        for (original, encoded, back, path) in [
            (
                json!({"a": 1, "b": null}),
                json!({"a": 1}),
                json!({"a": 1}),
                None,
            ),
            (json!({"a": 1}), json!({"a": 1}), json!({}), Some("a")),
            (
                json!({"a": [1, {"b": 2}]}),
                json!({"a": [1, {"b": 2}]}),
                json!({"a": [1, {"b": 3}]}),
                Some("a[1].b"),
            ),
            (
                json!({"a": [1]}),
                json!({"a": [1]}),
                json!({"a": []}),
                Some("a"),
            ),
            (json!({}), json!({}), json!({"new": {"x": 1}}), Some("new")),
            // The type omits an empty list and writes a default.
            (json!({"a": []}), json!({"b": 0}), json!({"b": 0}), None),
            (json!({"a": [7]}), json!({}), json!({}), Some("a")),
            // A value in another notation counts as equal.
            (
                json!({"cpu": 1}),
                json!({"cpu": "1"}),
                json!({"cpu": "1"}),
                None,
            ),
            (
                json!({"cpu": 1}),
                json!({"cpu": "1"}),
                json!({"cpu": "2"}),
                Some("cpu"),
            ),
        ] {
            let found = difference(&original, &encoded, &back, "");
            let found = found.map(|found| match found {
                RoundTripProblem::Differs { path, .. } => path,
                RoundTripProblem::Failed(error) => panic!("{error}"),
            });
            assert_eq!(found.as_deref(), path, "{original} {back}");
        }
    }
}
