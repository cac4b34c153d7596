//! A type that no server could send is not an object.
//~ `Note` is not a Kubernetes object that Steersman can cache
//~ derive `CustomResource`, `Clone`, `Debug`, `Serialize` and `Deserialize` for your kind, or use a type of k8s-openapi

use steersman::object::Object;

struct Note;

fn cached<K: Object>() {}

fn main() {
    cached::<Note>();
}
