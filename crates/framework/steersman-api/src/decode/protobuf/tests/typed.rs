//! Random objects of each built-in type, and damaged bytes of them.

use std::any::TypeId;

use k8s_openapi::api;
use serde_json::Value;
use steersman_object::{Kind, TypedObject, decode_json, decodes_all_protobuf, each_built_in_type};
use steersman_protobuf::random::{damage, object};
use steersman_protobuf::{Message, encode_text};

use crate::decode::AnswerDecoder;
use crate::decode::protobuf::JsonBuffer;
use crate::head::Conformity;

/// VIEW-8: a cache decodes such an object only when it is read, so the read must not fail.
#[test]
fn every_object_in_protobuf_decodes_as_the_type_of_its_kind() {
    macro_rules! each {
        ($($group:ident::$version:ident::{$($kind:ident),+ $(,)?}),+ $(,)?) => {
            $($(decodes_always::<api::$group::$version::$kind>();)+)+
        };
    }
    each_built_in_type!(each);
}

fn decodes_always<K: TypedObject>() {
    let kind = Kind::of::<K>();
    assert!(
        decodes_all_protobuf(TypeId::of::<K>(), kind.gvk()),
        "{kind}"
    );
    let message = Message::of_kind(&kind.gvk().api_version(), kind.gvk().kind()).unwrap();
    let decoder = AnswerDecoder::new(kind.clone(), false);
    let rounds = std::env::var("STEERSMAN_TYPED_OBJECTS");
    let rounds = rounds.map_or(300, |text| text.parse().unwrap());
    let mut shown = 0;
    for round in 0..rounds {
        let mut rng = fastrand::Rng::with_seed(round);
        let sent = Value::Object(object(message, &mut rng)).to_string();
        let mut raw = encode_text(message, sent.as_bytes()).unwrap().raw;
        // Two of three objects are damaged, because a server may send any bytes.
        for _ in 0..round % 3 {
            damage(&mut raw, &mut rng);
        }
        let mut buffer = JsonBuffer::default();
        let Ok((prepared, _)) = decoder.transcoded(&raw, &mut buffer) else {
            continue;
        };
        if prepared.conformity == Conformity::OfItsKind {
            shown += 1;
            if let Err(why) = decode_json::<K>(&prepared.json, true) {
                panic!(
                    "{kind}: {why} in {}",
                    String::from_utf8_lossy(&prepared.json)
                );
            }
        }
    }
    assert!(shown > rounds / 30, "{kind}: only {shown} of {rounds}");
}
