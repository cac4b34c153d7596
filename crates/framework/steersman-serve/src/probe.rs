//! Machine: makes the responses of health endpoints, as kube-apiserver and controller-runtime do (HEALTH-1).

use http::StatusCode;
use percent_encoding::percent_decode_str;

/// The query of a request to a health endpoint.
///
/// `?verbose` shows each check even if all pass. `?exclude=name`, which may be repeated, skips a check.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProbeQuery {
    verbose: bool,
    excluded: Vec<String>,
}

/// The result of one named check.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub struct CheckResult {
    name: String,
    is_ok: bool,
    /// Lines about the check that every client may read.
    findings: Vec<String>,
    /// The reason of a failure, shown only if the endpoint reveals reasons.
    reason: Option<String>,
}

/// The response of a health endpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ProbeResponse {
    /// 200 if every check passes, else 500.
    pub status: StatusCode,
    /// The text, in the format of kube-apiserver.
    pub text: String,
}

/// The maximal number of excluded checks; further ones are ignored.
const MOST_EXCLUDED: usize = 64;

impl CheckResult {
    /// Makes the result of a passed check.
    pub fn passed(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            is_ok: true,
            findings: Vec::new(),
            reason: None,
        }
    }

    /// Makes the result of a failed check. Clients see the reason only if the endpoint reveals reasons.
    pub fn failed(name: impl Into<String>, reason: impl Into<String>) -> Self {
        Self {
            is_ok: false,
            reason: Some(reason.into()),
            ..Self::passed(name)
        }
    }

    /// Makes the result of a check with findings, one per line, that every client may read.
    pub fn with_findings(name: impl Into<String>, is_ok: bool, findings: Vec<String>) -> Self {
        Self {
            is_ok,
            findings,
            ..Self::passed(name)
        }
    }

    /// Returns the name of the check.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns whether the check passes.
    pub fn is_ok(&self) -> bool {
        self.is_ok
    }

    /// Returns the findings and the reason of a failure, for the log.
    pub fn explanation(&self) -> String {
        let all: Vec<&str> = self
            .findings
            .iter()
            .chain(&self.reason)
            .map(String::as_str)
            .collect();
        all.join("; ")
    }

    fn write(&self, reveals: bool, text: &mut String) {
        let name = &self.name;
        match (self.is_ok, &self.reason) {
            (true, _) => text.push_str(&format!("[+]{name} ok\n")),
            (false, Some(_)) if !reveals => {
                text.push_str(&format!("[-]{name} failed: reason withheld\n"));
            }
            (false, Some(reason)) => {
                text.push_str(&format!("[-]{name} failed: {}\n", one_line(reason)));
            }
            (false, None) => text.push_str(&format!("[-]{name} failed\n")),
        }
        for finding in &self.findings {
            text.push_str(&format!("    {}\n", one_line(finding)));
        }
    }
}

impl ProbeQuery {
    /// Parses the query of a URL, and ignores unknown parameters.
    #[must_use]
    pub fn parse(query: Option<&str>) -> Self {
        let mut parsed = Self::default();
        for pair in query.unwrap_or_default().split('&') {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            match name {
                "verbose" => parsed.verbose = true,
                "exclude" if parsed.excluded.len() < MOST_EXCLUDED => {
                    // Invalid UTF-8 is replaced.
                    let value = value.replace('+', " ");
                    let decoded = percent_decode_str(&value).decode_utf8_lossy();
                    parsed.excluded.push(decoded.into_owned());
                }
                _ => {}
            }
        }
        parsed
    }

    /// Returns whether the query excludes a check.
    pub fn excludes(&self, check: &str) -> bool {
        self.excluded.iter().any(|name| name == check)
    }

    /// Returns the response of an endpoint with several checks. `names` are all checks in order; `results` are those of
    /// the checks that ran.
    pub fn respond(
        &self,
        endpoint: &str,
        names: &[String],
        results: &[CheckResult],
        reveals: bool,
    ) -> ProbeResponse {
        let mut text = String::new();
        let mut is_ok = true;
        for name in names {
            match results.iter().find(|result| result.name == *name) {
                Some(result) => {
                    is_ok &= result.is_ok;
                    result.write(reveals, &mut text);
                }
                None => text.push_str(&format!("[+]{name} excluded: ok\n")),
            }
        }
        let unknown = self.excluded.iter().filter(|name| !names.contains(name));
        let unknown: Vec<String> = unknown.map(|name| format!("{name:?}")).collect();
        if !unknown.is_empty() {
            text.push_str(&format!(
                "warn: some health checks cannot be excluded: no matches for {}\n",
                unknown.join(", ")
            ));
        }
        if !is_ok {
            text.push_str(&format!("{endpoint} check failed\n"));
            return ProbeResponse::new(StatusCode::INTERNAL_SERVER_ERROR, text);
        }
        if !self.verbose {
            return ProbeResponse::new(StatusCode::OK, "ok".to_owned());
        }
        text.push_str(&format!("{endpoint} check passed\n"));
        ProbeResponse::new(StatusCode::OK, text)
    }

    /// Returns the response of an endpoint with a single check.
    pub fn respond_one(&self, result: &CheckResult, reveals: bool) -> ProbeResponse {
        if result.is_ok && !self.verbose {
            return ProbeResponse::new(StatusCode::OK, "ok".to_owned());
        }
        let mut text = String::new();
        result.write(reveals, &mut text);
        let status = match result.is_ok {
            true => StatusCode::OK,
            false => StatusCode::INTERNAL_SERVER_ERROR,
        };
        ProbeResponse::new(status, text)
    }
}

impl ProbeResponse {
    fn new(status: StatusCode, text: String) -> Self {
        Self { status, text }
    }
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names() -> Vec<String> {
        ["ping", "informers", "db"].map(str::to_owned).to_vec()
    }

    fn results() -> Vec<CheckResult> {
        vec![
            CheckResult::passed("ping"),
            CheckResult::with_findings("informers", true, vec!["pods: forbidden".to_owned()]),
            CheckResult::failed("db", "password\nwrong"),
        ]
    }

    /// HEALTH-1: a health endpoint answers as that of kube-apiserver.
    #[test]
    fn responses_are_those_of_kube_apiserver() {
        let table = [
            (
                None,
                500,
                "[+]ping ok\n[+]informers ok\n    pods: forbidden\n[-]db failed: reason withheld\n\
                 readyz check failed\n",
            ),
            (Some("exclude=db"), 200, "ok"),
            (
                Some("verbose&exclude=db"),
                200,
                "[+]ping ok\n[+]informers ok\n    pods: forbidden\n[+]db excluded: ok\nreadyz check passed\n",
            ),
            (
                Some("verbose=1&exclude=d%62&exclude=a%20b"),
                200,
                "[+]ping ok\n[+]informers ok\n    pods: forbidden\n[+]db excluded: ok\n\
                 warn: some health checks cannot be excluded: no matches for \"a b\"\nreadyz check passed\n",
            ),
        ];
        for (query, status, text) in table {
            let parsed = ProbeQuery::parse(query);
            let ran: Vec<_> = results()
                .into_iter()
                .filter(|result| !parsed.excludes(result.name()))
                .collect();
            let response = parsed.respond("readyz", &names(), &ran, false);
            assert_eq!((response.status.as_u16(), &*response.text), (status, text));
        }
    }

    /// HEALTH-1: a health endpoint answers as that of kube-apiserver.
    #[test]
    fn a_reason_is_shown_only_if_the_endpoint_reveals_reasons() {
        let query = ProbeQuery::parse(None);
        let failed = CheckResult::failed("db", "password\nwrong");
        let withheld = query.respond_one(&failed, false);
        assert_eq!(withheld.text, "[-]db failed: reason withheld\n");
        let revealed = query.respond_one(&failed, true);
        assert_eq!(revealed.text, "[-]db failed: password wrong\n");
        assert_eq!(revealed.status, 500);
        let passed = query.respond_one(&CheckResult::passed("db"), false);
        assert_eq!((passed.status.as_u16(), &*passed.text), (200, "ok"));
    }

    #[test]
    fn every_query_is_read_without_a_panic() {
        for query in [
            "%", "%2", "exclude=%zz", "exclude=%é", "&&==&exclude", "exclude=%ff",
        ] {
            let _ = ProbeQuery::parse(Some(query));
        }
        assert!(ProbeQuery::parse(Some("exclude=a+b")).excludes("a b"));
        assert!(ProbeQuery::parse(Some("exclude=%e4%b8%ad")).excludes("中"));
        let many = vec!["exclude=x"; 100_000].join("&");
        assert_eq!(ProbeQuery::parse(Some(&many)).excluded.len(), 64);
    }
}
