//! Machine: decides what is to be done at the service.

use steersman::object::Object as _;

use crate::database::Database;
use crate::service::Settings;

/// What is to be done at the service for one `Database`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Plan {
    /// Whether the settings are to be written, which creates a missing database.
    pub(crate) put: bool,
    /// Whether a new password is to be requested. A new database has one.
    pub(crate) renew_password: bool,
}

/// Compares the wanted settings with those at the service.
///
/// `has_credentials` says whether the Secret has credentials that the service accepts.
pub(crate) fn plan(wanted: &Settings, found: Option<&Settings>, has_credentials: bool) -> Plan {
    Plan {
        put: found != Some(wanted),
        renew_password: found.is_some() && !has_credentials,
    }
}

/// Returns the settings that a `Database` asks for.
pub(crate) fn wanted(database: &Database) -> Settings {
    Settings {
        owner: database.spec.owner.clone(),
        connections: database.spec.connections,
    }
}

/// Returns the name of a database at the service. Namespaces have no dots, so no two objects share a name.
pub(crate) fn external_name(database: &Database) -> String {
    let key = database.key();
    format!("{}.{}", key.namespace().unwrap_or_default(), key.name())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_difference_is_written() {
        let settings = |connections| Settings {
            owner: "ann".to_owned(),
            connections,
        };
        let of = |found: Option<Settings>, has_credentials| {
            let plan = plan(&settings(5), found.as_ref(), has_credentials);
            (plan.put, plan.renew_password)
        };
        assert_eq!(of(None, false), (true, false));
        // The credentials of a database that was deleted.
        assert_eq!(of(None, true), (true, false));
        assert_eq!(of(Some(settings(5)), true), (false, false));
        assert_eq!(of(Some(settings(5)), false), (false, true));
        assert_eq!(of(Some(settings(6)), true), (true, false));
    }
}
