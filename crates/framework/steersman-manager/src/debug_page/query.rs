//! Words: the query of a request for a view.

use percent_encoding::percent_decode_str;
use steersman_object::ObjectKey;

/// The parameters of a view. Unknown ones are ignored.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ViewQuery {
    /// The name of a controller.
    pub(crate) controller: String,
    /// The namespace and the name of an object, as `namespace/name` or `name`.
    pub(crate) key: String,
    /// A part of the rows' names.
    pub(crate) filter: String,
    pub(crate) offset: usize,
    pub(crate) limit: usize,
}

/// The number of rows of a page by default, and at most.
const ROWS: usize = 50;
const MOST_ROWS: usize = 500;

impl ViewQuery {
    /// Reads the query of a URL. Values that cannot be read count as absent.
    pub(crate) fn parse(query: &str) -> Self {
        let mut this = Self {
            limit: ROWS,
            ..Self::default()
        };
        for field in query.split('&') {
            let (name, value) = field.split_once('=').unwrap_or((field, ""));
            let value = value.replace('+', " ");
            let value = percent_decode_str(&value)
                .decode_utf8_lossy()
                .trim()
                .to_owned();
            match name {
                "controller" => this.controller = value,
                "key" => this.key = value,
                "filter" => this.filter = value,
                "offset" => this.offset = value.parse().unwrap_or_default(),
                "limit" => this.limit = value.parse().unwrap_or(ROWS).clamp(1, MOST_ROWS),
                _ => {}
            }
        }
        this
    }

    /// Returns the key of the object; `None` without one. A third part before it is the name of a cluster.
    pub(crate) fn object(&self) -> Option<ObjectKey> {
        let parts: Vec<&str> = self.key.split('/').collect();
        if parts.iter().any(|part| part.is_empty()) {
            return None;
        }
        match *parts {
            [name] => Some(ObjectKey::cluster_scoped(name)),
            [namespace, name] | [_, namespace, name] => {
                Some(ObjectKey::namespaced(namespace, name))
            }
            _ => None,
        }
    }

    /// Returns the cluster that the key names.
    pub(crate) fn cluster(&self) -> Option<&str> {
        let (cluster, rest) = self.key.split_once('/')?;
        rest.contains('/').then_some(cluster)
    }

    /// Returns whether a row with this name is wanted.
    pub(crate) fn matches(&self, name: &str) -> bool {
        let filter = self.filter.to_lowercase();
        filter.is_empty() || name.to_lowercase().contains(&filter)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_is_read_and_its_limit_is_bounded() {
        let query = ViewQuery::parse("controller=my%20shop&key=a%2Fb&filter=x+y&limit=9999&z=1");
        assert_eq!(query.controller, "my shop");
        assert_eq!(query.object(), Some(ObjectKey::namespaced("a", "b")));
        assert_eq!((query.filter.as_str(), query.limit), ("x y", MOST_ROWS));
        let other = ViewQuery::parse("key=east/a/b");
        assert_eq!((other.cluster(), query.cluster()), (Some("east"), None));
        assert_eq!(other.object(), Some(ObjectKey::namespaced("a", "b")));
        let empty = ViewQuery::parse("");
        assert_eq!((empty.object(), empty.limit, empty.offset), (None, ROWS, 0));
        assert_eq!(
            ViewQuery::parse("key=node-1").object(),
            Some(ObjectKey::cluster_scoped("node-1"))
        );
        assert_eq!(
            ViewQuery::parse("key=a/&limit=0&offset=-1&filter=%ff").object(),
            None
        );
    }
}
