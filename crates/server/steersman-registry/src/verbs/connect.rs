//! Machine: admission and authorization of connections (exec, proxy and so on), all of which the server then refuses.

use serde_json::{Map, Value, json};
use steersman_apimachinery::status::Status;
use steersman_schema::subresources::further;

use crate::admission::attributes::WriteAdmission;
use crate::requests::metadata;
use crate::requests::options::{ObjectTarget, WriteOptions};
use crate::state::registry::Registry;

const FLAGS: &[&str] = &["stdin", "stdout", "stderr", "tty"];

impl Registry {
    /// Runs policies and webhooks for a connection (operation `CONNECT`), and then checks the permission `create` for
    /// it. `part` is the subresource and the path after it, and `query` has the options of the connection.
    ///
    /// # Errors
    /// The refusal of a policy or webhook, the failure to call a webhook without `failurePolicy: Ignore`, or 403.
    pub fn admit_connection(
        &self,
        target: ObjectTarget<'_>,
        part: &str,
        query: &[(String, String)],
        options: &WriteOptions,
    ) -> Result<(), Status> {
        let (word, path) = part.split_once('/').unwrap_or((part, ""));
        if self.is_changed() || self.is_judged() {
            self.ask_about_connection(target, (word, path), query, options)?;
        }
        self.authorize_stream(target, word, &options.user)
    }

    fn ask_about_connection(
        &self,
        target: ObjectTarget<'_>,
        (word, path): (&str, &str),
        query: &[(String, String)],
        options: &WriteOptions,
    ) -> Result<(), Status> {
        let Some(further) = further(target.resource).find(|further| further.name == word) else {
            return Ok(());
        };
        let mut body = connection(query);
        body.insert("kind".to_owned(), json!(further.kind));
        body.insert("apiVersion".to_owned(), json!("v1"));
        if !path.is_empty() {
            body.insert("path".to_owned(), json!(format!("/{path}")));
        }
        let mut admission = WriteAdmission::of_write(target, ("CONNECT", target.name), options);
        admission.subresource = further.name;
        admission.kind = Some(("", "v1", further.kind));
        admission.dry = false;
        admission.options = Value::Null;
        self.admit_request(&admission, Value::Object(body))
    }
}

/// Returns the fields of a connection's options, such as PodExecOptions, that its query parameters set.
fn connection(query: &[(String, String)]) -> Map<String, Value> {
    let mut options = Map::new();
    for (name, value) in query {
        let mut add = |value: Value| {
            if let Some(list) = metadata::list_in(&mut options, name) {
                list.push(value);
            }
        };
        match name.as_str() {
            "command" => add(json!(value)),
            "ports" => {
                if let Ok(port) = value.parse::<i32>() {
                    add(json!(port));
                }
            }
            "container" | "path" if !value.is_empty() => {
                options.entry(name.clone()).or_insert_with(|| json!(value));
            }
            flag if FLAGS.contains(&flag)
                && value != "0"
                && !value.eq_ignore_ascii_case("false") =>
            {
                options.insert(name.clone(), json!(true));
            }
            _ => {}
        }
    }
    options
}
