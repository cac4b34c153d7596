//! The file format of a recorded conversation.

use std::collections::BTreeMap;
use std::fmt;

use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::Value;

/// A recorded conversation.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Case {
    /// The name and the server; present only in conversations kept elsewhere.
    #[serde(default, rename = "name")]
    _name: Option<String>,
    #[serde(default, rename = "server")]
    _server: Option<String>,
    /// The source of the rule, for a conversation that was not recorded.
    #[serde(default)]
    pub(super) source: Option<String>,
    /// The rule that the conversation shows.
    pub(super) about: String,
    pub(super) steps: Vec<Step>,
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
pub(super) enum Step {
    Do(Do),
    Watch(Watch),
    Sleep(Sleep),
}

/// A request and its answer.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Do {
    /// Method and path.
    #[serde(rename = "do")]
    pub(super) request: String,
    #[serde(default)]
    pub(super) body: Option<Text>,
    /// Headers to send; null removes a default header.
    #[serde(default)]
    pub(super) headers: BTreeMap<String, Option<String>>,
    /// The user to impersonate.
    #[serde(default, rename = "as")]
    pub(super) user: Option<String>,
    /// The groups to impersonate. Only the last one is sent, because the recorder kept one header
    /// per name.
    #[serde(default)]
    pub(super) groups: Vec<String>,
    /// Names under which to save values of the answer, by JSON pointer.
    #[serde(default)]
    pub(super) save: BTreeMap<String, String>,
    pub(super) got: Got,
}

/// A watch and its result.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Watch {
    #[serde(rename = "watch")]
    pub(super) path: String,
    #[serde(default)]
    pub(super) headers: BTreeMap<String, Option<String>>,
    #[serde(default, rename = "as")]
    pub(super) user: Option<String>,
    #[serde(default)]
    pub(super) groups: Vec<String>,
    pub(super) seconds: f64,
    /// Steps that run during the watch.
    pub(super) during: Vec<Step>,
    pub(super) got: Got,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Sleep {
    #[serde(rename = "sleep")]
    pub(super) seconds: f64,
}

/// The recorded answer.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Got {
    pub(super) status: u16,
    #[serde(default)]
    pub(super) headers: BTreeMap<String, String>,
    /// The body: JSON, or a text that is no JSON.
    #[serde(default)]
    pub(super) body: Option<Value>,
    /// The events of a watch that opened.
    #[serde(default)]
    pub(super) events: Option<Vec<Value>>,
}

/// A body as it was sent. JSON keeps the order of its keys and the spaces after commas and colons,
/// because refusals quote the body.
#[derive(Debug)]
pub(super) struct Text(pub(super) String);

impl<'de> Deserialize<'de> for Text {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut text = String::new();
        Writer {
            text: &mut text,
            top: true,
        }
        .deserialize(deserializer)?;
        Ok(Self(text))
    }
}

struct Writer<'a> {
    text: &'a mut String,
    /// Whether this is the whole body; then a text stands for itself.
    top: bool,
}

impl Writer<'_> {
    fn below(&mut self) -> Writer<'_> {
        Writer {
            text: self.text,
            top: false,
        }
    }

    fn json(self, value: impl Into<Value>) {
        self.text.push_str(&value.into().to_string());
    }
}

impl<'de> DeserializeSeed<'de> for Writer<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Writer<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any JSON value")
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut map: A) -> Result<(), A::Error> {
        self.text.push('{');
        let mut first = true;
        while let Some(key) = map.next_key::<String>()? {
            self.text.push_str(if first { "" } else { ", " });
            first = false;
            self.text.push_str(&Value::from(key).to_string());
            self.text.push_str(": ");
            map.next_value_seed(self.below())?;
        }
        self.text.push('}');
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut items: A) -> Result<(), A::Error> {
        self.text.push('[');
        let mut written = self.text.len();
        while items
            .next_element_seed(Separated(&mut self, written))?
            .is_some()
        {
            written = 0;
        }
        self.text.push(']');
        Ok(())
    }

    fn visit_bool<E>(self, value: bool) -> Result<(), E> {
        self.json(value);
        Ok(())
    }

    fn visit_i64<E>(self, value: i64) -> Result<(), E> {
        self.json(value);
        Ok(())
    }

    fn visit_u64<E>(self, value: u64) -> Result<(), E> {
        self.json(value);
        Ok(())
    }

    fn visit_f64<E>(self, value: f64) -> Result<(), E> {
        self.json(value);
        Ok(())
    }

    fn visit_str<E>(self, value: &str) -> Result<(), E> {
        if self.top {
            self.text.push_str(value);
        } else {
            self.json(value);
        }
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        self.json(Value::Null);
        Ok(())
    }
}

/// Writes an item of a list, with a comma before it unless it is the first.
struct Separated<'a, 'b>(&'a mut Writer<'b>, usize);

impl<'de> DeserializeSeed<'de> for Separated<'_, '_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        if self.0.text.len() != self.1 {
            self.0.text.push_str(", ");
        }
        self.0.below().deserialize(deserializer)
    }
}

#[cfg(test)]
mod tests {
    use super::Text;

    #[test]
    fn bodies_keep_their_order() {
        let sent = |json: &str| serde_json::from_str::<Text>(json).unwrap().0;
        assert_eq!(
            sent(r#"{"b":1,"a":[true,null,"x\"",[],{}],"c":{"d":-1.5}}"#),
            r#"{"b": 1, "a": [true, null, "x\"", [], {}], "c": {"d": -1.5}}"#
        );
        assert_eq!(sent(r#""not \"json\"""#), r#"not "json""#);
    }
}
