//! Machine: encodes one revision of an object as protobuf, for all its readers.

use bytes::Bytes;
use steersman_protobuf::envelope::END_OF_ENVELOPE;
use steersman_protobuf::{EncodeError, Message, encode_text, frame, seal};

use super::change_type::ChangeType;

/// One revision of one object as protobuf (SRV-STORE-9). All parts share one allocation.
#[derive(Debug)]
pub struct ProtobufForm {
    /// The object in the envelope of Kubernetes: the prefix `k8s\0`, then a `runtime.Unknown` with the object.
    pub object: Bytes,
    /// The object without the envelope, as an item of a list.
    pub message: Bytes,
    /// The type of this revision's watch event, and the event with its length in front; `None` without an event.
    event: Option<(ChangeType, Bytes)>,
}

impl ProtobufForm {
    /// Encodes an object from its JSON. `made` is the type of the watch event of its revision.
    pub(super) fn of(
        (api_version, kind): (&str, &str),
        json: &[u8],
        made: Option<ChangeType>,
    ) -> Result<Self, EncodeError> {
        let message = Message::of_kind(api_version, kind).ok_or_else(|| EncodeError {
            path: String::new(),
            problem: format!("{kind} in {api_version} has no message"),
        })?;
        let raw = encode_text(message, json)?.raw;
        let sealed = seal(api_version, kind, &raw);
        let length = sealed.len();
        // The object is at the end of the bytes of its watch event, so both share one allocation.
        let (object, event) = match made {
            None => (Bytes::from(sealed), None),
            Some(made) => {
                let frame = Bytes::from(frame(made.as_str(), &sealed));
                (frame.slice(frame.len() - length..), Some((made, frame)))
            }
        };
        let end = length - END_OF_ENVELOPE.len();
        Ok(Self {
            message: object.slice(end - raw.len()..end),
            object,
            event,
        })
    }

    /// Returns the bytes of this revision's watch event (length and message), if the event has the type `made`.
    pub fn event(&self, made: ChangeType) -> Option<Bytes> {
        let (own, frame) = self.event.as_ref()?;
        (*own == made).then(|| frame.clone())
    }
}
