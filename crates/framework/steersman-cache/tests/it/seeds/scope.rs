//! The scope in which a kind is cached, and its model: the objects of the server that it includes.

use serde_json::Value;
use steersman_cache::{ByObject, CacheOptions, Settings};
use steersman_testenv::seeds::SeededRng;

/// The cached namespaces, each with its selectors, and the selectors of all other namespaces if they are cached, too.
#[derive(Clone, Debug)]
pub(super) struct Scope {
    named: Vec<(&'static str, Sieve)>,
    others: Option<Sieve>,
}

/// The selectors of one informer.
#[derive(Clone, Copy, Debug, Default)]
struct Sieve {
    labels: bool,
    fields: bool,
}

impl Scope {
    pub(super) fn everything() -> Self {
        Self {
            named: Vec::new(),
            others: Some(Sieve::default()),
        }
    }

    pub(super) fn of(rng: &mut SeededRng, namespaced: bool) -> Self {
        let mut named = Vec::new();
        for namespace in ["a", "b"] {
            if namespaced && rng.chance(40) {
                named.push((namespace, Sieve::of(rng)));
            }
        }
        let others = named.is_empty() || rng.chance(40);
        Self {
            named,
            others: others.then(|| Sieve::of(rng)),
        }
    }

    /// Returns the options of a kind, which inherit no default.
    pub(super) fn by_object(&self, namespaced: bool) -> ByObject {
        let mut options = ByObject::new();
        if self.named.is_empty() {
            if namespaced {
                options = options.all_namespaces();
            }
            return options.settings(self.others.unwrap_or_default().settings());
        }
        for (namespace, sieve) in &self.named {
            options = options.namespace(*namespace, sieve.settings());
        }
        match self.others {
            Some(sieve) => options.other_namespaces(sieve.settings()),
            None => options,
        }
    }

    /// Sets the scope as the default of kinds without options.
    pub(super) fn by_default(&self, mut options: CacheOptions) -> CacheOptions {
        for (namespace, sieve) in &self.named {
            options = options.default_namespace(*namespace, sieve.settings());
        }
        match self.others {
            Some(sieve) => options.default_other_namespaces(sieve.settings()),
            None => options,
        }
    }

    /// Returns the namespace of each informer, in order.
    pub(super) fn places(&self) -> Vec<Option<&'static str>> {
        let named = self.named.iter().map(|(namespace, _)| Some(*namespace));
        named.chain(self.others.map(|_| None)).collect()
    }

    /// Returns the namespace of the informer that covers a namespace (or cluster-scoped objects),
    /// if there is one.
    pub(super) fn place(&self, namespace: Option<&str>) -> Option<Option<&'static str>> {
        self.at(namespace).map(|(place, _)| place)
    }

    /// Returns the namespace of the informer that holds an object of the server, if there is one.
    pub(super) fn holds(&self, object: &Value) -> Option<Option<&'static str>> {
        let metadata = &object["metadata"];
        let (place, sieve) = self.at(metadata["namespace"].as_str())?;
        let labels = !sieve.labels || metadata["labels"]["keep"] == "yes";
        let fields = !sieve.fields || metadata["name"] != "o0";
        (labels && fields).then_some(place)
    }

    fn at(&self, namespace: Option<&str>) -> Option<(Option<&'static str>, Sieve)> {
        let named = self.named.iter().find(|(own, _)| Some(*own) == namespace);
        match named {
            Some((own, sieve)) => Some((Some(*own), *sieve)),
            None => self.others.map(|sieve| (None, sieve)),
        }
    }
}

impl Sieve {
    fn of(rng: &mut SeededRng) -> Self {
        Self {
            labels: rng.chance(30),
            fields: rng.chance(20),
        }
    }

    fn settings(self) -> Settings {
        let settings = Settings::new();
        let settings = if self.labels {
            settings.labels("keep=yes")
        } else {
            settings.all_labels()
        };
        if self.fields {
            settings.fields("metadata.name!=o0")
        } else {
            settings.all_fields()
        }
    }
}
