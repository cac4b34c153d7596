//! Machine: builds the path and the query of a request.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use steersman_object::{Kind, ObjectKey};

use crate::options::{FieldValidation, PageRequest, VersionMatch, WatchOptions, WriteOptions};

/// The bytes that are escaped: all except the unreserved characters of RFC 3986.
const ESCAPED: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~');

/// A path and its query, escaped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Url {
    text: String,
    queried: bool,
}

impl Url {
    pub(crate) fn path(text: String) -> Self {
        Self {
            text,
            queried: false,
        }
    }

    pub(crate) fn collection(kind: &Kind, namespace: Option<&str>) -> Result<Self, String> {
        if let Some(namespace) = namespace {
            check_segment("namespace", namespace)?;
        }
        Ok(Self::path(kind.collection_path(namespace)))
    }

    pub(crate) fn object(kind: &Kind, key: &ObjectKey) -> Result<Self, String> {
        if kind.is_namespaced() && key.namespace().is_none() {
            return Err(format!("{kind} lives in a namespace, and the key has none"));
        }
        check_segment("name", key.name())?;
        let mut url = Self::collection(kind, key.namespace())?;
        url.text.push('/');
        url.text.extend(utf8_percent_encode(key.name(), ESCAPED));
        Ok(url)
    }

    pub(crate) fn sub(mut self, subresource: &str) -> Self {
        self.text.push('/');
        self.text.extend(utf8_percent_encode(subresource, ESCAPED));
        self
    }

    pub(crate) fn list(mut self, request: &PageRequest) -> Self {
        let paging = &request.paging;
        self.pair_opt("labelSelector", request.labels.as_deref());
        self.pair_opt("fieldSelector", request.fields.as_deref());
        self.pair_opt("shardSelector", request.shard_selector.as_deref());
        if let Some(limit) = paging.page_size {
            self.pair("limit", &limit.to_string());
        }
        // The continue token contains the version, and the server refuses a request with both.
        if let Some(token) = &paging.continue_token {
            self.pair("continue", token);
            return self;
        }
        let version = paging.resource_version.as_ref().map(|v| v.as_str());
        self.pair_opt("resourceVersion", version.filter(|v| !v.is_empty()));
        match paging.version_match {
            Some(VersionMatch::NotOlderThan) => self.pair("resourceVersionMatch", "NotOlderThan"),
            Some(VersionMatch::Exact) => self.pair("resourceVersionMatch", "Exact"),
            None => {}
        }
        self
    }

    pub(crate) fn watch(mut self, options: &WatchOptions) -> Self {
        self.pair("watch", "true");
        self.pair_opt("labelSelector", options.labels.as_deref());
        self.pair_opt("fieldSelector", options.fields.as_deref());
        self.pair_opt("shardSelector", options.shard_selector.as_deref());
        if options.bookmarks {
            self.pair("allowWatchBookmarks", "true");
        }
        if let Some(timeout) = options.timeout {
            self.pair("timeoutSeconds", &timeout.as_secs().max(1).to_string());
        }
        let version = options.resource_version.as_str();
        self.pair_opt("resourceVersion", Some(version).filter(|v| !v.is_empty()));
        if options.initial_events {
            self.pair("sendInitialEvents", "true");
            self.pair("resourceVersionMatch", "NotOlderThan");
        }
        self
    }

    /// Adds the parameters of a create, an update or a patch other than apply.
    pub(crate) fn write(mut self, options: &WriteOptions) -> Self {
        self.pair_opt("fieldManager", options.field_manager.as_deref());
        let validation = options.field_validation.map(FieldValidation::as_str);
        self.pair_opt("fieldValidation", validation);
        self.dry_run(options.dry_run)
    }

    /// Adds the parameters of a server-side apply, which is always strict about unknown fields.
    pub(crate) fn apply(mut self, options: &WriteOptions) -> Self {
        self.pair_opt("fieldManager", options.field_manager.as_deref());
        if options.force {
            self.pair("force", "true");
        }
        self.dry_run(options.dry_run)
    }

    fn dry_run(mut self, dry_run: bool) -> Self {
        if dry_run {
            self.pair("dryRun", "All");
        }
        self
    }

    fn pair_opt(&mut self, name: &str, value: Option<&str>) {
        if let Some(value) = value {
            self.pair(name, value);
        }
    }

    fn pair(&mut self, name: &str, value: &str) {
        self.text.push(if self.queried { '&' } else { '?' });
        self.queried = true;
        self.text.push_str(name);
        self.text.push('=');
        self.text.extend(utf8_percent_encode(value, ESCAPED));
    }

    pub(crate) fn into_string(self) -> String {
        self.text
    }
}

/// Refuses a path segment that would change the path; no server has such a name (apimachinery,
/// `api/validation/path.IsValidPathSegmentName`).
fn check_segment(what: &str, text: &str) -> Result<(), String> {
    match text {
        "" => Err(format!("the {what} is empty")),
        "." | ".." => Err(format!("{text:?} cannot be a {what}")),
        _ if text.contains(['/', '%']) => {
            Err(format!("a {what} cannot contain '/' or '%' ({text:?})"))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::{Node, Pod};
    use proptest::prelude::*;
    use steersman_object::ResourceVersion;

    use crate::options::Paging;

    use super::*;

    fn pods(namespace: Option<&str>) -> Url {
        Url::collection(&Kind::of::<Pod>(), namespace).unwrap()
    }

    #[test]
    fn selectors_are_escaped() {
        let paging = Paging::new()
            .page_size(500)
            .resource_version(ResourceVersion::any());
        let request = PageRequest {
            labels: Some("app in (a,b),x!=y".to_owned()),
            fields: Some("metadata.name=ä b".to_owned()),
            ..PageRequest::new(paging)
        };
        assert_eq!(
            pods(Some("web")).list(&request).into_string(),
            "/api/v1/namespaces/web/pods?labelSelector=app%20in%20%28a%2Cb%29%2Cx%21%3Dy\
             &fieldSelector=metadata.name%3D%C3%A4%20b&limit=500&resourceVersion=0"
        );
    }

    #[test]
    fn a_shard_selector_is_sent_with_every_page_and_with_watches() {
        for token in [None, Some("t")] {
            let mut paging = Paging::new();
            paging.continue_token = token.map(Into::into);
            let request = PageRequest {
                shard_selector: Some("shardRange(a, '0x0')".to_owned()),
                ..PageRequest::new(paging)
            };
            let url = pods(None).list(&request).into_string();
            let expected = "/api/v1/pods?shardSelector=shardRange%28a%2C%20%270x0%27%29";
            let rest = url.strip_prefix(expected).unwrap();
            assert_eq!(rest, token.map_or("", |_| "&continue=t"));
        }
        let mut options = WatchOptions::after(ResourceVersion::new("12"));
        options.shard_selector = Some("s".to_owned());
        assert_eq!(
            pods(None).watch(&options).into_string(),
            "/api/v1/pods?watch=true&shardSelector=s&allowWatchBookmarks=true&resourceVersion=12"
        );
    }

    #[test]
    fn a_continued_list_sends_no_version() {
        let paging = Paging::new()
            .page_size(1)
            .resource_version(ResourceVersion::new("7"))
            .continue_token("a+b/c==");
        let request = PageRequest::new(paging);
        assert_eq!(
            pods(None).list(&request).into_string(),
            "/api/v1/pods?limit=1&continue=a%2Bb%2Fc%3D%3D"
        );
        let exact = Paging::new()
            .resource_version(ResourceVersion::new("7"))
            .version_match(VersionMatch::Exact);
        assert_eq!(
            pods(None).list(&PageRequest::new(exact)).into_string(),
            "/api/v1/pods?resourceVersion=7&resourceVersionMatch=Exact"
        );
    }

    #[test]
    fn a_watch_requests_bookmarks_and_a_streaming_list_initial_events() {
        let options = WatchOptions::after(ResourceVersion::new("12"))
            .timeout(std::time::Duration::from_secs(290));
        assert_eq!(
            pods(None).watch(&options).into_string(),
            "/api/v1/pods?watch=true&allowWatchBookmarks=true&timeoutSeconds=290&resourceVersion=12"
        );
        let options = WatchOptions::streaming_list(ResourceVersion::unset());
        assert_eq!(
            pods(None).watch(&options).into_string(),
            "/api/v1/pods?watch=true&allowWatchBookmarks=true&sendInitialEvents=true\
             &resourceVersionMatch=NotOlderThan"
        );
    }

    #[test]
    fn an_object_needs_the_namespace_of_its_scope() {
        let error = Url::object(&Kind::of::<Pod>(), &ObjectKey::cluster_scoped("a")).unwrap_err();
        assert!(error.contains("namespace"), "{error}");
        let node = Url::object(&Kind::of::<Node>(), &ObjectKey::cluster_scoped("a:b")).unwrap();
        assert_eq!(
            node.sub("status").into_string(),
            "/api/v1/nodes/a%3Ab/status"
        );
    }

    proptest! {
        #[test]
        fn no_name_leaves_its_segment(name in any::<String>()) {
            let key = ObjectKey::cluster_scoped(name);
            if let Ok(url) = Url::object(&Kind::of::<Node>(), &key) {
                let text = url.into_string();
                prop_assert!(text.parse::<http::Uri>().is_ok(), "{}", text);
                prop_assert_eq!(text.matches('/').count(), 4);
            }
        }
    }
}
