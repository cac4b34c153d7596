//! Words: the fields of a form or of a URL query.

use crate::http::Query;

/// The fields of a form. A field that was left empty counts as absent.
#[derive(Debug, Clone, Default)]
pub(crate) struct Form {
    query: Query,
}

impl Form {
    /// Parses the body of a form. Fields with broken escapes are left out.
    pub(crate) fn parse(body: &[u8]) -> Self {
        Self::of_query(std::str::from_utf8(body).ok())
    }

    pub(crate) fn of_query(query: Option<&str>) -> Self {
        let query = Query::parse(query);
        Self { query }
    }

    /// Returns a field without spaces around it; `None` if it is absent or empty.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        let value = self.query.get(name).map(str::trim);
        value.filter(|value| !value.is_empty())
    }

    pub(crate) fn text(&self, name: &str) -> String {
        self.get(name).unwrap_or_default().to_owned()
    }

    /// Returns a number; `None` if the field is absent or no number.
    pub(crate) fn number(&self, name: &str) -> Option<u64> {
        self.get(name)?.parse().ok()
    }
}
