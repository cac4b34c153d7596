//! Words: the facts about one operator that all generators share.

use std::collections::BTreeSet;

use steersman_apimachinery::names::{self, NameRule};
use steersman_crds::check_versions;
use steersman_description::Description;

use crate::definition::OwnKind;
use crate::error::Error;
use crate::options::Options;

/// The maximal length of a program's name. The longest suffix of a derived name has 13 characters, and the name of a
/// Service may have 63.
const MOST: usize = 50;

/// The facts about one operator that all generators share.
#[derive(Clone, Debug)]
pub(crate) struct Operator {
    /// The name of the program, with which all names start.
    pub(crate) name: String,
    pub(crate) namespace: String,
    pub(crate) image: String,
    pub(crate) options: Options,
    pub(crate) description: Description,
    pub(crate) own: Vec<OwnKind>,
}

impl Operator {
    pub(crate) fn new(description: &Description, options: &Options) -> Result<Self, Error> {
        let name = description.name.clone();
        check_name("the name of the program", &name, MOST)?;
        let namespace = options.namespace.clone();
        let namespace = namespace.unwrap_or_else(|| format!("{name}-system"));
        check_name("the namespace", &namespace, 63)?;
        let mut options = options.clone();
        let mut known = BTreeSet::new();
        for watched in &options.namespaces {
            check_name("a watched namespace", watched, 63)?;
        }
        let limited = description.limited_kinds.iter();
        for limited in limited.flat_map(|kind| &kind.namespaces) {
            check_name("a namespace of the cache", limited, 63)?;
        }
        // A repeated namespace gets only one role.
        options
            .namespaces
            .retain(|watched| known.insert(watched.clone()));
        if let Some(grafana) = &options.grafana_namespace {
            check_name("the namespace of Grafana", grafana, 63)?;
        }
        check_account(options.prometheus_account.as_deref())?;
        let image = options.image.clone();
        // A version may contain `+`, which an image tag cannot.
        let tag = || description.version.replace('+', "_");
        let image = image.unwrap_or_else(|| format!("{name}:{}", tag()));
        check_image(&image)?;
        let own = description.definitions.iter().map(OwnKind::of);
        let mut own: Vec<OwnKind> = own.collect::<Result<_, _>>()?;
        own.sort_by_key(OwnKind::name);
        for converted in &description.converted {
            let is_it =
                |own: &&mut OwnKind| own.group == converted.group && own.kind == converted.kind;
            let own = own.iter_mut().find(is_it).ok_or_else(|| Error::Converted {
                group: converted.group.clone(),
                kind: converted.kind.clone(),
            })?;
            own.convert_by(&name, &namespace, options.cert_manager);
        }
        // DEF-7: refuses different versions without a conversion webhook.
        for own in &own {
            let checked = check_versions(&own.definition);
            checked.map_err(|error| Error::Unconverted(error.to_string()))?;
        }
        let mut description = description.clone();
        let webhooks = &mut description.webhooks;
        webhooks.sort_by(|a, b| (a.mutates, &a.path).cmp(&(b.mutates, &b.path)));
        Ok(Self {
            name,
            namespace,
            image,
            options,
            description,
            own,
        })
    }

    pub(crate) fn in_namespace(&self, namespace: &str) -> Self {
        let mut operator = self.clone();
        namespace.clone_into(&mut operator.namespace);
        for own in &mut operator.own {
            if own.is_converted {
                own.convert_by(&self.name, namespace, self.options.cert_manager);
            }
        }
        operator
    }

    /// Returns whether the namespace is `<name>-system`. Any other namespace must exist, and no manifest creates it,
    /// because it may hold more than the operator.
    pub(crate) fn owns_namespace(&self) -> bool {
        self.namespace == format!("{}-system", self.name) && self.namespace != "kube-system"
    }

    pub(crate) fn own_kind(&self, group: &str, plural: &str) -> Option<&OwnKind> {
        let mut own = self.own.iter();
        own.find(|own| own.group == group && own.plural == plural)
    }

    /// Returns the namespaces in which the cache holds a kind; empty if it holds the kind in all namespaces.
    pub(crate) fn namespaces_of(&self, group: &str, plural: &str) -> &[String] {
        let mut limited = self.description.limited_kinds.iter();
        let limited = limited.find(|kind| (&*kind.group, &*kind.plural) == (group, plural));
        limited.map_or(&[], |kind| &kind.namespaces)
    }

    /// Returns the namespaces in which controllers reconcile objects; `None` if some controller is not limited.
    pub(crate) fn namespaces_of_primaries(&self) -> Option<BTreeSet<String>> {
        let mut all = BTreeSet::new();
        for controller in &self.description.controllers {
            let primary = controller.primary.as_ref()?;
            let namespaces = self.namespaces_of(&primary.group, &primary.plural);
            if namespaces.is_empty() {
                return None;
            }
            all.extend(namespaces.iter().cloned());
        }
        Some(all)
    }

    /// Returns the namespace and the name of Prometheus' service account.
    pub(crate) fn prometheus_account(&self) -> Option<(&str, &str)> {
        let account = self.options.prometheus_account.as_deref();
        account.and_then(|account| account.split_once('/'))
    }

    pub(crate) fn has_webhook_server(&self) -> bool {
        !self.description.converted.is_empty() || !self.description.webhooks.is_empty()
    }

    /// Returns whether cert-manager makes the certificate of the webhooks.
    pub(crate) fn uses_cert_manager(&self) -> bool {
        self.options.cert_manager && self.has_webhook_server()
    }

    /// Returns whether the program has a defaulter (`mutates`), or a validator (not `mutates`).
    pub(crate) fn has_webhooks(&self, mutates: bool) -> bool {
        let mut webhooks = self.description.webhooks.iter();
        webhooks.any(|one| one.mutates == mutates)
    }
}

fn check_name(place: &'static str, name: &str, most: usize) -> Result<(), Error> {
    if name.len() <= most && names::check_name(NameRule::Label, name).is_empty() {
        return Ok(());
    }
    let name = name.to_owned();
    Err(Error::Name { place, name, most })
}

/// Checks the service account of Prometheus.
fn check_account(account: Option<&str>) -> Result<(), Error> {
    let Some(account) = account else {
        return Ok(());
    };
    let is_account = account.split_once('/').is_some_and(|(namespace, name)| {
        names::check_name(NameRule::Label, namespace).is_empty()
            && names::check_name(NameRule::Subdomain, name).is_empty()
    });
    if is_account {
        return Ok(());
    }
    Err(Error::Option {
        option: "prometheus-account",
        value: account.to_owned(),
        problem: "write it as namespace/name, such as monitoring/prometheus-k8s",
    })
}

fn check_image(image: &str) -> Result<(), Error> {
    let is_part = |char: char| char.is_ascii_alphanumeric() || "._-/:@".contains(char);
    if !image.is_empty() && image.chars().all(is_part) {
        return Ok(());
    }
    Err(Error::Option {
        option: "image",
        value: image.to_owned(),
        problem: "write it as registry.example.com/name:tag",
    })
}
