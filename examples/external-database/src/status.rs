//! Machine: the status of a `Database`.

use jiff::Timestamp;
use steersman::status_conditions::{self, FALSE, HasConditions as _, READY, TRUE};

use crate::credentials::secret_key;
use crate::database::{Database, DatabaseStatus};
use crate::plan::external_name;

/// The state of a database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    /// The database is as the spec says.
    Available,
    /// The service does not execute requests.
    Unavailable { why: String },
    /// A Secret of another owner has the name of that of the credentials.
    Occupied,
}

impl Progress {
    /// Returns the reason of the condition, and of the Event.
    pub(crate) fn reason(&self) -> &'static str {
        match self {
            Self::Available => "Available",
            Self::Unavailable { .. } => "ServiceUnavailable",
            Self::Occupied => "SecretOccupied",
        }
    }

    /// Returns the text of the condition, and of the Event.
    pub(crate) fn message(&self, database: &Database) -> String {
        match self {
            Self::Available => format!("the database {} is available", external_name(database)),
            Self::Unavailable { why } => why.clone(),
            Self::Occupied => {
                let secret = secret_key(database);
                format!(
                    "the Secret {secret} belongs to another owner: delete it, or rename the Database"
                )
            }
        }
    }
}

/// Returns the status of `database` at `now`. An unchanged state gives an unchanged status, and no request.
pub(crate) fn status(database: &Database, progress: &Progress, now: Timestamp) -> DatabaseStatus {
    let mut conditions = database.conditions().to_vec();
    let state = match progress {
        Progress::Available => TRUE,
        Progress::Unavailable { .. } | Progress::Occupied => FALSE,
    };
    let message = progress.message(database);
    let ready =
        status_conditions::condition(database, READY, state, progress.reason(), message, now);
    status_conditions::set(&mut conditions, ready);
    DatabaseStatus {
        observed_generation: database.metadata.generation,
        database: Some(external_name(database)),
        secret: Some(secret_key(database).name().to_owned()),
        conditions,
    }
}

/// Returns whether the status reports `progress` already.
pub(crate) fn is_reported(database: &Database, progress: &Progress) -> bool {
    let ready = status_conditions::find(database.conditions(), READY);
    ready.is_some_and(|ready| {
        ready.reason == progress.reason() && ready.message == progress.message(database)
    })
}
