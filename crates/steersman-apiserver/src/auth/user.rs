//! Words: `User`, whoever a request comes from.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

/// The group that passes every check of permissions.
pub const MASTERS: &str = "system:masters";
/// The group of everybody who showed a credential.
pub const AUTHENTICATED: &str = "system:authenticated";
/// The group of everybody who showed none.
pub const UNAUTHENTICATED: &str = "system:unauthenticated";
/// The name of those who showed no credential.
pub const ANONYMOUS: &str = "system:anonymous";
/// What the user names of ServiceAccounts begin with: namespace and name follow, with a colon
/// between them.
pub const SERVICE_ACCOUNT_PREFIX: &str = "system:serviceaccount:";
/// The group of all ServiceAccounts; with a colon and a namespace behind it, of those there.
pub const SERVICE_ACCOUNTS: &str = "system:serviceaccounts";

/// Whoever a request comes from, as authentication found it, in the words of Kubernetes'
/// `userInfo`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub struct User {
    /// The name, for instance `ann` or `system:serviceaccount:default:builder`.
    pub name: String,
    /// An id that tells users of one name apart; may be empty.
    pub uid: String,
    /// The groups, in order.
    pub groups: Vec<String>,
    /// Further facts by lower-case key.
    pub extra: BTreeMap<String, Vec<String>>,
}

impl User {
    /// A user of that name in no group. A server that authenticates adds `system:authenticated`.
    #[must_use]
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            ..Self::default()
        }
    }

    /// The user with a further group.
    #[must_use]
    pub fn group(mut self, group: impl Into<String>) -> Self {
        self.groups.push(group.into());
        self
    }

    /// The user with that id.
    #[must_use]
    pub fn uid(mut self, uid: impl Into<String>) -> Self {
        self.uid = uid.into();
        self
    }

    /// The user with a further fact. Keys are kept in lower case, as Kubernetes wants them.
    #[must_use]
    pub fn extra(mut self, key: &str, value: impl Into<String>) -> Self {
        let values = self.extra.entry(key.to_lowercase()).or_default();
        values.push(value.into());
        self
    }

    /// Whoever works with the server's own kubeconfig or inside its process: may do everything.
    #[must_use]
    pub fn admin() -> Self {
        Self::new("system:admin")
            .group(MASTERS)
            .group(AUTHENTICATED)
    }

    /// Whoever showed no credential.
    #[must_use]
    pub fn anonymous() -> Self {
        Self::new(ANONYMOUS).group(UNAUTHENTICATED)
    }

    /// The user that a ServiceAccount is.
    #[must_use]
    pub fn service_account(namespace: &str, name: &str) -> Self {
        Self::new(format!("{SERVICE_ACCOUNT_PREFIX}{namespace}:{name}"))
            .group(SERVICE_ACCOUNTS)
            .group(format!("{SERVICE_ACCOUNTS}:{namespace}"))
            .group(AUTHENTICATED)
    }

    /// The user in the group `system:authenticated`, unless he is in `system:unauthenticated`.
    #[must_use]
    pub fn authenticated(self) -> Self {
        if self.is_in(AUTHENTICATED) || self.is_in(UNAUTHENTICATED) {
            self
        } else {
            self.group(AUTHENTICATED)
        }
    }

    /// Whether the user is in a group.
    #[must_use]
    pub fn is_in(&self, group: &str) -> bool {
        self.groups.iter().any(|own| own == group)
    }

    /// The `userInfo` of `authentication.k8s.io/v1`; what is empty is left out.
    #[must_use]
    pub fn info(&self) -> Value {
        let mut info = Map::new();
        if !self.name.is_empty() {
            info.insert("username".to_owned(), json!(self.name));
        }
        if !self.uid.is_empty() {
            info.insert("uid".to_owned(), json!(self.uid));
        }
        if !self.groups.is_empty() {
            info.insert("groups".to_owned(), json!(self.groups));
        }
        if !self.extra.is_empty() {
            info.insert("extra".to_owned(), json!(self.extra));
        }
        Value::Object(info)
    }

    /// The user of a [`userInfo`](Self::info); none without a name.
    pub(crate) fn of_info(info: &Value) -> Option<Self> {
        let texts = |value: &Value| -> Vec<String> {
            let all = value.as_array().into_iter().flatten();
            all.filter_map(Value::as_str).map(str::to_owned).collect()
        };
        let extra = info["extra"].as_object().into_iter().flatten();
        Some(Self {
            name: info["username"].as_str()?.to_owned(),
            uid: info["uid"].as_str().unwrap_or_default().to_owned(),
            groups: texts(&info["groups"]),
            extra: extra.map(|(key, all)| (key.clone(), texts(all))).collect(),
        })
    }
}
