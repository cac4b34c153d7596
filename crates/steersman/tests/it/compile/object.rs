//! A type that no server could send is not an object.

use steersman::object::Object;

struct Note;

fn cached<K: Object>() {}

fn main() {
    cached::<Note>();
}
