//! Machine: parses a URL query into the options of a verb.

use std::num::IntErrorKind;

use steersman_apimachinery::status::{FieldError, GroupResource, Status};
use steersman_apimachinery::{go, times};
use steersman_registry::{DeleteOptions, ListQuery, WriteOptions};
use steersman_tables::IncludeObject;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Query {
    pairs: Vec<(String, String)>,
}

impl Query {
    /// Parses the query of a URL. As in Go, parameters with broken escapes, such as `%zz`, are left out.
    pub(crate) fn parse(query: Option<&str>) -> Self {
        let pairs = query
            .unwrap_or_default()
            .split('&')
            .filter(|pair| !pair.is_empty())
            .filter_map(|pair| {
                let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
                let unescape = |text: &str| go::unescape(&text.replace('+', " "));
                Some((unescape(name)?, unescape(value)?))
            })
            .collect();
        Self { pairs }
    }

    pub(crate) fn pairs(&self) -> &[(String, String)] {
        &self.pairs
    }

    /// For the fault `StaleList`: makes a list read the past `revision`. Changes nothing if the past state is no valid
    /// answer: if the list asks for the newest state, an exact version, a newer minimum, or the next page.
    pub(crate) fn look_back(&mut self, revision: u64) {
        let asked = self.get("resourceVersion").map(str::parse::<u64>);
        let takes_newer = match self.get("resourceVersionMatch") {
            // A list with a limit and without `resourceVersionMatch` asks for exactly its version, unless that is 0.
            None | Some("") => self.get("limit").is_none() || asked == Some(Ok(0)),
            Some(how) => how == "NotOlderThan",
        };
        // A list without a version asks for the newest state, so it is not changed.
        let is_met = matches!(asked, Some(Ok(least)) if least <= revision);
        if !is_met || !takes_newer || !self.get("continue").is_none_or(str::is_empty) {
            return;
        }
        self.pairs
            .retain(|(name, _)| name != "resourceVersion" && name != "resourceVersionMatch");
        let mut add = |name: &str, value: String| self.pairs.push((name.to_owned(), value));
        add("resourceVersion", revision.to_string());
        add("resourceVersionMatch", "Exact".to_owned());
    }

    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        let found = self.pairs.iter().find(|(key, _)| key == name);
        found.map(|(_, value)| value.as_str())
    }

    fn owned(&self, name: &str) -> Option<String> {
        self.get(name).map(str::to_owned)
    }

    pub(crate) fn all(&self, name: &str) -> Vec<String> {
        let found = self.pairs.iter().filter(|(key, _)| key == name);
        found.map(|(_, value)| value.clone()).collect()
    }

    /// Returns a boolean parameter: `false` and `0` are off, any other value is on; `None` if it is absent.
    pub(crate) fn switch(&self, name: &str) -> Option<bool> {
        self.get(name)
            .map(|value| !(value == "0" || value.eq_ignore_ascii_case("false")))
    }

    fn integer(&self, name: &str) -> Result<Option<i64>, Status> {
        let parse = |text: &str| {
            text.parse::<i64>().map_err(|error| {
                let why = match error.kind() {
                    IntErrorKind::PosOverflow | IntErrorKind::NegOverflow => "value out of range",
                    _ => "invalid syntax",
                };
                let text = go::quote(text);
                Status::bad_request(format!("strconv.ParseInt: parsing {text}: {why}"))
            })
        };
        self.get(name).map(parse).transpose()
    }

    pub(crate) fn is_watch(&self) -> bool {
        self.switch("watch").unwrap_or(false)
    }

    /// Returns whether JSON is to be indented: as the parameter `pretty` says; without it, only for curl, Wget and
    /// browsers (apiserver, `responsewriters.isPrettyPrint`).
    pub(crate) fn is_pretty(&self, user_agent: &str) -> bool {
        match self.get("pretty").filter(|said| !said.is_empty()) {
            Some(said) => go::parse_bool(said) == Some(true),
            None => ["curl", "Wget", "Mozilla/5.0"]
                .iter()
                .any(|program| user_agent.starts_with(program)),
        }
    }

    /// Returns `timeoutSeconds`; `None` if it is absent or not positive.
    pub(crate) fn timeout_seconds(&self) -> Result<Option<u64>, Status> {
        let seconds = self.integer("timeoutSeconds")?;
        Ok(seconds
            .and_then(|seconds| u64::try_from(seconds).ok())
            .filter(|seconds| *seconds > 0))
    }

    /// Checks the parameters of a request for the log of a Pod. Upstream: `ValidatePodLogOptions`.
    pub(crate) fn check_log_options(&self, pod: &str) -> Result<(), Status> {
        let at_least = |field: &str, least: i64, detail: &str| -> Result<Option<_>, Status> {
            let found = self.integer(field)?.filter(|found| *found < least);
            Ok(found.map(|found| FieldError::invalid(field, &found.to_string(), detail)))
        };
        let since = at_least("sinceSeconds", 1, "must be greater than 0")?;
        if let Some(time) = self
            .get("sinceTime")
            .filter(|time| !["", "null"].contains(time))
        {
            times::check(time).map_err(Status::bad_request)?;
        }
        let stream = self.get("stream").map(|_| {
            // The parameter needs upstream's feature PodLogsQuerySplitStreams, which is off by default.
            FieldError::forbidden("stream", "may not be specified")
        });
        let since = match (self.get("sinceSeconds"), self.get("sinceTime")) {
            (Some(_), Some(_)) => {
                let detail = "at most one of `sinceTime` or `sinceSeconds` may be specified";
                Some(FieldError::forbidden("", detail))
            }
            _ => since,
        };
        let errors = [
            at_least("tailLines", 0, "must be greater than or equal to 0")?,
            at_least("limitBytes", 1, "must be greater than 0")?,
            since,
            stream,
        ];
        let errors: Vec<FieldError> = errors.into_iter().flatten().collect();
        let kind = GroupResource::new("", "PodLogOptions");
        match errors.is_empty() {
            true => Ok(()),
            false => Err(Status::invalid(kind, pod, &errors)),
        }
    }

    /// Returns the options of a list, or of the list of objects that a deletecollection deletes. Also checks
    /// `timeoutSeconds`.
    pub(crate) fn list_options(&self) -> Result<ListQuery, Status> {
        self.timeout_seconds()?;
        self.watch_options()
    }

    pub(crate) fn watch_options(&self) -> Result<ListQuery, Status> {
        Ok(ListQuery {
            label_selector: self.owned("labelSelector"),
            field_selector: self.owned("fieldSelector"),
            shard_selector: self.owned("shardSelector"),
            limit: self.integer("limit")?.unwrap_or_default(),
            continue_token: self.owned("continue"),
            resource_version: self.owned("resourceVersion"),
            resource_version_match: self.owned("resourceVersionMatch"),
            send_initial_events: self.switch("sendInitialEvents"),
            allow_bookmarks: self.switch("allowWatchBookmarks").unwrap_or(false),
        })
    }

    pub(crate) fn write_options(&self) -> WriteOptions {
        let validation = self.owned("fieldValidation");
        WriteOptions {
            dry_run: self.all("dryRun"),
            field_manager: self.owned("fieldManager"),
            field_validation: validation.filter(|mode| !mode.is_empty()),
            force: self.switch("force"),
            ..WriteOptions::default()
        }
    }

    pub(crate) fn delete_options(&self) -> Result<DeleteOptions, Status> {
        Ok(DeleteOptions {
            dry_run: self.all("dryRun"),
            grace_period_seconds: self.integer("gracePeriodSeconds")?,
            propagation_policy: self.owned("propagationPolicy"),
            orphan_dependents: self.switch("orphanDependents"),
            ..DeleteOptions::default()
        })
    }

    pub(crate) fn include_object(&self) -> Result<IncludeObject, Status> {
        match self.get("includeObject").unwrap_or_default() {
            "" | "Metadata" => Ok(IncludeObject::Metadata),
            "Object" => Ok(IncludeObject::Object),
            "None" => Ok(IncludeObject::None),
            other => Err(Status::bad_request(format!(
                "Unable to convert to Table as requested: includeObject: Invalid value: {}: \
                 must be 'Metadata', 'Object', 'None', or empty",
                go::quote(other)
            ))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_decoded() {
        let query = Query::parse(Some("labelSelector=a%3Db%2Cc&x=1+2&flag&broken=%zz&"));
        assert_eq!(query.get("labelSelector"), Some("a=b,c"));
        assert_eq!(query.get("x"), Some("1 2"));
        assert_eq!(query.get("flag"), Some(""));
        assert_eq!(query.get("broken"), None);
    }

    #[test]
    fn anything_but_false_and_zero_switches_on() {
        for (text, on) in [
            ("1", true),
            ("true", true),
            ("maybe", true),
            ("", true),
            ("0", false),
            ("False", false),
        ] {
            assert_eq!(
                Query::parse(Some(&format!("watch={text}"))).is_watch(),
                on,
                "{text}"
            );
        }
        assert!(!Query::parse(None).is_watch());
    }

    #[test]
    fn options_of_a_log_are_checked() {
        let why = |query: &str| {
            let checked = Query::parse(Some(query)).check_log_options("p");
            checked.map_err(|refused| (refused.code, refused.message))
        };
        assert_eq!(why("tailLines=0&limitBytes=1&sinceSeconds=1"), Ok(()));
        let invalid = |text: &str| Err((422, format!("PodLogOptions \"p\" is invalid: {text}")));
        assert_eq!(
            why("tailLines=-1&limitBytes=0"),
            invalid(
                "[tailLines: Invalid value: -1: must be greater than or equal to 0, limitBytes: \
                 Invalid value: 0: must be greater than 0]"
            )
        );
        assert_eq!(
            why("sinceSeconds=1&sinceTime=2026-01-02T03:04:05Z"),
            invalid(": Forbidden: at most one of `sinceTime` or `sinceSeconds` may be specified")
        );
        let text = "strconv.ParseInt: parsing \"x\": invalid syntax".to_owned();
        assert_eq!(why("tailLines=x"), Err((400, text)));
        let text = "parsing time \"foo\" as \"2006-01-02T15:04:05Z07:00\": cannot parse \"foo\" as \"2006\"";
        assert_eq!(why("sinceTime=foo"), Err((400, text.to_owned())));
        assert_eq!(
            why("stream=Stdout"),
            invalid("stream: Forbidden: may not be specified")
        );
    }

    #[test]
    fn a_limit_that_is_no_number_is_refused() {
        let refused = Query::parse(Some("limit=few")).list_options().unwrap_err();
        assert_eq!(refused.code, 400);
        assert_eq!(
            refused.message,
            "strconv.ParseInt: parsing \"few\": invalid syntax"
        );
        assert_eq!(
            Query::parse(Some("limit=-3")).list_options().unwrap().limit,
            -3
        );
        assert_eq!(
            Query::parse(Some("timeoutSeconds=-3"))
                .timeout_seconds()
                .unwrap(),
            None
        );
    }

    #[test]
    fn repeated_dry_runs_are_all_kept() {
        let options = Query::parse(Some("dryRun=All&dryRun=None")).write_options();
        assert_eq!(options.dry_run, ["All", "None"]);
    }
}
