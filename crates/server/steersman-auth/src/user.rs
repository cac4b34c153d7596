//! Words: `User`, the user that sends a request.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// The group with every permission.
pub const MASTERS: &str = "system:masters";
/// The group of all users that have a credential.
pub const AUTHENTICATED: &str = "system:authenticated";
/// The group of the user of requests without a credential.
pub const UNAUTHENTICATED: &str = "system:unauthenticated";
/// The user name of requests without a credential.
pub const ANONYMOUS: &str = "system:anonymous";
/// Prefix of the user name of a ServiceAccount; the namespace, a colon and the name follow.
pub const SERVICE_ACCOUNT_PREFIX: &str = "system:serviceaccount:";
/// The group of all ServiceAccounts; with a colon and a namespace, the group of the ServiceAccounts in that namespace.
pub const SERVICE_ACCOUNTS: &str = "system:serviceaccounts";

/// The key of the extra value with the id of the credential (KEP-4193).
pub const CREDENTIAL_ID: &str = "authentication.kubernetes.io/credential-id";

/// The user that sends a request, as authentication found it, with the fields of Kubernetes' `userInfo`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct User {
    /// The name of the user, for instance `ann` or `system:serviceaccount:default:builder`.
    #[serde(rename = "username", skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// An id that distinguishes users of the same name; may be empty.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub uid: String,
    /// The groups of the user, in the order of the credential.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<String>,
    /// Additional values about the user, by keys in lower case.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub extra: BTreeMap<String, Vec<String>>,
}

impl User {
    /// Creates a user without groups. Authentication adds `system:authenticated`.
    #[must_use]
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            ..Self::default()
        }
    }

    /// Adds a group to the user.
    #[must_use]
    pub fn group(mut self, group: impl Into<String>) -> Self {
        self.groups.push(group.into());
        self
    }

    /// Sets the uid of the user.
    #[must_use]
    pub fn uid(mut self, uid: impl Into<String>) -> Self {
        self.uid = uid.into();
        self
    }

    /// Adds an extra value to the user. The key is converted to lower case, as in Kubernetes.
    #[must_use]
    pub fn extra(mut self, key: &str, value: impl Into<String>) -> Self {
        let values = self.extra.entry(key.to_lowercase()).or_default();
        values.push(value.into());
        self
    }

    /// Returns the user of the server's own kubeconfig and of clients in the server's process, which may do everything.
    #[must_use]
    pub fn admin() -> Self {
        Self::new("system:admin")
            .group(MASTERS)
            .group(AUTHENTICATED)
    }

    /// Returns the user of requests without a credential.
    #[must_use]
    pub fn anonymous() -> Self {
        Self::new(ANONYMOUS).group(UNAUTHENTICATED)
    }

    /// Returns the user of a ServiceAccount.
    #[must_use]
    pub fn service_account(namespace: &str, name: &str) -> Self {
        Self::new(format!("{SERVICE_ACCOUNT_PREFIX}{namespace}:{name}"))
            .group(SERVICE_ACCOUNTS)
            .group(format!("{SERVICE_ACCOUNTS}:{namespace}"))
            .group(AUTHENTICATED)
    }

    /// Adds the group `system:authenticated`, unless the user is in `system:unauthenticated`.
    #[must_use]
    pub fn authenticated(self) -> Self {
        if self.is_in(AUTHENTICATED) || self.is_in(UNAUTHENTICATED) {
            self
        } else {
            self.group(AUTHENTICATED)
        }
    }

    /// Returns whether the user is in a group.
    pub fn is_in(&self, group: &str) -> bool {
        self.groups.iter().any(|own| own == group)
    }

    /// Serialises the user as `userInfo` of `authentication.k8s.io/v1`, without empty members.
    pub fn info(&self) -> Value {
        json!(self)
    }

    /// Parses a [`userInfo`](Self::info); unknown members are errors (SRV-SNAP-4).
    ///
    /// # Errors
    /// Returns a description of the problem.
    pub fn of_info(info: &Value) -> Result<Self, &'static str> {
        if !info.is_object() {
            return Err("it is no object");
        }
        let user = Self::deserialize(info).map_err(|_| "it has a member that no user has")?;
        if user.name.is_empty() {
            return Err("it has no username");
        }
        Ok(user)
    }
}
