//! Machine: the databases of the service, and its answers.

use std::collections::BTreeMap;
use std::hash::{BuildHasher as _, RandomState};

use http::{Method, StatusCode};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// The part of a database that its owner decides.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, Serialize)]
pub struct Settings {
    /// The user that owns the database.
    pub owner: String,
    /// The largest number of open connections.
    pub connections: i32,
}

/// The databases of the service, by name.
#[derive(Debug, Default)]
pub struct Records {
    databases: BTreeMap<String, Record>,
    /// The number of passwords that were issued.
    issued: u64,
    requests: u64,
    /// The number of requests that are still to fail.
    failures: u32,
    random: RandomState,
}

#[derive(Debug)]
struct Record {
    settings: Settings,
    password: String,
}

/// An answer: a status code, and a body for most of them.
pub type Answer = (StatusCode, Value);

impl Records {
    /// Answers a request:
    ///
    /// | request | answer |
    /// | --- | --- |
    /// | `GET /databases/NAME` | 200 with the settings, 404 |
    /// | `PUT /databases/NAME` with settings | 201 with a password, or 200 for a database that exists |
    /// | `DELETE /databases/NAME` | 204, 404 |
    /// | `POST /databases/NAME/password` | 200 with a new password, 404 |
    /// | `POST /databases/NAME/login` with `user` and `password` | 204, 401, 404 |
    pub fn respond(&mut self, method: &Method, path: &str, body: &[u8]) -> Answer {
        self.requests += 1;
        if self.failures > 0 {
            self.failures -= 1;
            return refusal(StatusCode::SERVICE_UNAVAILABLE, "maintenance");
        }
        let Some(path) = path.strip_prefix("/databases/") else {
            return refusal(StatusCode::NOT_FOUND, "no such path");
        };
        let body: Value = serde_json::from_slice(body).unwrap_or_default();
        match (method.as_str(), path.split_once('/')) {
            ("GET", None) => match self.settings(path) {
                Some(settings) => (StatusCode::OK, json!(settings)),
                None => unknown(path),
            },
            ("PUT", None) => self.put(path, body),
            ("DELETE", None) => match self.databases.remove(path) {
                Some(_) => (StatusCode::NO_CONTENT, Value::Null),
                None => unknown(path),
            },
            ("POST", Some((name, "password"))) => self.new_password(name),
            ("POST", Some((name, "login"))) => self.login(name, &body),
            _ => refusal(StatusCode::METHOD_NOT_ALLOWED, "no such request"),
        }
    }

    /// Lets the next requests fail with 503.
    pub fn fail(&mut self, requests: u32) {
        self.failures = requests;
    }

    /// Returns the settings of a database.
    pub fn settings(&self, name: &str) -> Option<&Settings> {
        Some(&self.databases.get(name)?.settings)
    }

    /// Returns the name, the settings and the password of each database.
    pub fn list(&self) -> impl Iterator<Item = (&str, &Settings, &str)> {
        let databases = self.databases.iter();
        databases.map(|(name, record)| (&**name, &record.settings, &*record.password))
    }

    /// Returns the number of requests.
    pub fn requests(&self) -> u64 {
        self.requests
    }

    /// Returns the number of passwords that were issued.
    pub fn issued(&self) -> u64 {
        self.issued
    }

    fn put(&mut self, name: &str, body: Value) -> Answer {
        let Ok(settings) = serde_json::from_value::<Settings>(body) else {
            return refusal(StatusCode::BAD_REQUEST, "the body has no settings");
        };
        if let Some(record) = self.databases.get_mut(name) {
            record.settings = settings;
            return (StatusCode::OK, Value::Null);
        }
        let password = self.issue();
        let record = Record {
            settings,
            password: password.clone(),
        };
        self.databases.insert(name.to_owned(), record);
        (StatusCode::CREATED, json!({ "password": password }))
    }

    fn new_password(&mut self, name: &str) -> Answer {
        let password = self.issue();
        match self.databases.get_mut(name) {
            Some(record) => {
                record.password.clone_from(&password);
                (StatusCode::OK, json!({ "password": password }))
            }
            None => unknown(name),
        }
    }

    fn login(&self, name: &str, body: &Value) -> Answer {
        match self.databases.get(name) {
            Some(record)
                if body["user"] == record.settings.owner && body["password"] == record.password =>
            {
                (StatusCode::NO_CONTENT, Value::Null)
            }
            Some(_) => refusal(StatusCode::UNAUTHORIZED, "wrong user or password"),
            None => unknown(name),
        }
    }

    /// Returns a new password. The service of this example keeps nothing of value.
    fn issue(&mut self) -> String {
        self.issued += 1;
        format!("{:016x}", self.random.hash_one(self.issued))
    }
}

fn unknown(name: &str) -> Answer {
    let message = format!("there is no database {name}");
    refusal(StatusCode::NOT_FOUND, &message)
}

fn refusal(status: StatusCode, message: &str) -> Answer {
    (status, json!({ "message": message }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn respond(records: &mut Records, method: &str, path: &str, body: &Value) -> (u16, Value) {
        let method = method.parse().unwrap();
        let (status, answer) = records.respond(&method, path, body.to_string().as_bytes());
        (status.as_u16(), answer)
    }

    #[test]
    fn a_database_is_created_changed_and_deleted() {
        let mut records = Records::default();
        let mut send = |method, path, body: Value| respond(&mut records, method, path, &body);
        let settings = json!({"owner": "ann", "connections": 5});
        assert_eq!(send("GET", "/databases/a", Value::Null).0, 404);
        let (status, created) = send("PUT", "/databases/a", settings);
        assert_eq!(status, 201);
        let login = |password: &Value| json!({"user": "ann", "password": password});
        let first = created["password"].clone();
        assert_eq!(send("POST", "/databases/a/login", login(&first)).0, 204);
        let (status, renewed) = send("POST", "/databases/a/password", Value::Null);
        assert_eq!(status, 200);
        assert_ne!(renewed["password"], first);
        assert_eq!(send("POST", "/databases/a/login", login(&first)).0, 401);
        let larger = json!({"owner": "ann", "connections": 50});
        assert_eq!(
            send("PUT", "/databases/a", larger.clone()),
            (200, Value::Null)
        );
        assert_eq!(send("GET", "/databases/a", Value::Null), (200, larger));
        assert_eq!(send("DELETE", "/databases/a", Value::Null).0, 204);
        assert_eq!(send("DELETE", "/databases/a", Value::Null).0, 404);
    }

    #[test]
    fn wrong_requests_are_refused() {
        let mut records = Records::default();
        let mut send = |method, path| respond(&mut records, method, path, &Value::Null).0;
        assert_eq!(send("PUT", "/databases/a"), 400);
        assert_eq!(send("PATCH", "/databases/a"), 405);
        assert_eq!(send("GET", "/tables"), 404);
        records.fail(1);
        assert_eq!(
            respond(&mut records, "GET", "/databases/a", &Value::Null).0,
            503
        );
        assert_eq!(
            respond(&mut records, "GET", "/databases/a", &Value::Null).0,
            404
        );
    }
}
