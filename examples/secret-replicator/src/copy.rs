//! Machine: the content of a copy.

use k8s_openapi::api::core::v1::Secret;
use steersman::k8s_openapi;
use steersman::object::Object as _;

use crate::names::{COPY, COPY_OF, ROLE};

/// Returns the copy of a source for a namespace.
pub(crate) fn new_copy(source: &Secret, namespace: &str) -> Secret {
    let mut copy = Secret::default();
    copy.metadata.namespace = Some(namespace.to_owned());
    copy.metadata.name.clone_from(&source.metadata.name);
    // The type of a Secret cannot be changed later.
    copy.type_.clone_from(&source.type_);
    fill(&mut copy, source);
    copy
}

/// Writes the fields that the operator owns. Other labels and annotations are kept.
pub(crate) fn fill(copy: &mut Secret, source: &Secret) {
    let labels = copy.metadata.labels.get_or_insert_default();
    labels.insert(ROLE.to_owned(), COPY.to_owned());
    let annotations = copy.metadata.annotations.get_or_insert_default();
    annotations.insert(COPY_OF.to_owned(), source.key().to_string());
    copy.data.clone_from(&source.data);
}

#[cfg(test)]
mod tests {
    use steersman::k8s_openapi::ByteString;

    use super::*;
    use crate::names::source_of;

    fn source() -> Secret {
        let mut source = Secret::default();
        source.metadata.namespace = Some("vault".to_owned());
        source.metadata.name = Some("token".to_owned());
        source.type_ = Some("Opaque".to_owned());
        source.data = Some([("key".to_owned(), ByteString(b"value".to_vec()))].into());
        source
    }

    #[test]
    fn a_copy_has_the_data_and_names_its_source() {
        let copy = new_copy(&source(), "shop");
        assert_eq!(copy.key().to_string(), "shop/token");
        assert_eq!((&copy.data, &copy.type_), (&source().data, &source().type_));
        assert_eq!(source_of(&copy), Some("vault/token"));
    }

    #[test]
    fn filling_corrects_the_data_and_keeps_the_labels_of_others() {
        let mut copy = new_copy(&source(), "shop");
        let labels = copy.metadata.labels.get_or_insert_default();
        labels.insert("theirs".to_owned(), "yes".to_owned());
        let good = copy.clone();
        copy.data = None;
        fill(&mut copy, &source());
        assert_eq!(copy, good);
    }
}
