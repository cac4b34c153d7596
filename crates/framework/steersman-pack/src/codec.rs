//! Handle: packs the JSON of one object with zstd, with or without a dictionary, and unpacks it.

use std::fmt;
use std::sync::Arc;
use std::thread::available_parallelism;

use parking_lot::Mutex;
use zstd_safe::{CCtx, CDict, DCtx, DDict, compress_bound};

/// zstd's fastest level. With a dictionary, higher levels hardly pack better.
pub(super) const LEVEL: i32 = 1;
/// The maximal number of idle contexts of each sort; fewer on a machine with fewer cores.
const IDLE: usize = 16;
/// The size in bytes from which a context or buffer is dropped and not reused.
const LARGE: usize = 1 << 20;

/// The JSON of one object, packed or not. A clone shares the bytes.
#[derive(Clone)]
pub enum Packed {
    /// Not packed yet.
    Fresh(Arc<Box<[u8]>>),
    /// Not packed, because packing does not make it smaller.
    Plain(Arc<[u8]>),
    /// Packed by zstd.
    Zstd {
        /// The packed bytes.
        bytes: Arc<[u8]>,
        /// The length of the JSON, in bytes.
        length: u32,
        /// The dictionary that unpacks the bytes, which lives as long as any body refers to it; `None` if they were
        /// packed without one.
        dictionary: Option<Arc<Dictionary>>,
    },
}

/// A zstd dictionary, prepared for packing and for unpacking.
#[derive(derive_more::Debug)]
#[debug("Dictionary {{ .. }}")]
pub struct Dictionary {
    packs: CDict<'static>,
    unpacks: DDict<'static>,
}

/// Idle zstd contexts and buffers, which are costly to make.
#[derive(derive_more::Debug)]
#[debug("Codec {{ .. }}")]
pub struct Codec {
    packers: Mutex<Vec<Packer>>,
    unpackers: Mutex<Unpackers>,
    /// The maximal number of idle contexts of each sort.
    most: usize,
}

/// Idle contexts and buffers for unpacking. They are separate, because a caller keeps the buffer while it decodes the
/// JSON, which takes many times as long as unpacking.
#[derive(Default)]
struct Unpackers {
    contexts: Vec<DCtx<'static>>,
    buffers: Vec<Vec<u8>>,
}

struct Packer {
    context: CCtx<'static>,
    buffer: Vec<u8>,
}

/// The error of bytes that cannot be unpacked.
#[derive(Debug)]
pub struct Broken;

impl Packed {
    /// Returns the length of the JSON, in bytes.
    pub fn length(&self) -> usize {
        match self {
            Self::Fresh(json) => json.len(),
            Self::Plain(json) => json.len(),
            // The length was converted from a `usize`.
            Self::Zstd { length, .. } => *length as usize,
        }
    }

    /// Returns the number of bytes in memory.
    pub fn size(&self) -> usize {
        match self {
            Self::Fresh(json) => json.len(),
            Self::Plain(bytes) | Self::Zstd { bytes, .. } => bytes.len(),
        }
    }

    /// Returns the JSON if it has not been packed yet.
    pub fn fresh(&self) -> Option<Arc<Box<[u8]>>> {
        match self {
            Self::Fresh(json) => Some(Arc::clone(json)),
            Self::Plain(_) | Self::Zstd { .. } => None,
        }
    }

    /// Returns whether both share the same bytes.
    pub fn is(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Fresh(one), Self::Fresh(other)) => Arc::ptr_eq(one, other),
            (
                Self::Plain(one) | Self::Zstd { bytes: one, .. },
                Self::Plain(other) | Self::Zstd { bytes: other, .. },
            ) => Arc::ptr_eq(one, other),
            _ => false,
        }
    }

    /// Returns the dictionary that the bytes are packed with.
    pub fn dictionary(&self) -> Option<&Arc<Dictionary>> {
        match self {
            Self::Zstd { dictionary, .. } => dictionary.as_ref(),
            Self::Fresh(_) | Self::Plain(_) => None,
        }
    }
}

impl fmt::Debug for Packed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The content is not printed, because it may be that of a Secret.
        write!(f, "{} bytes held as {}", self.length(), self.size())
    }
}

impl Dictionary {
    /// Prepares a dictionary from trained bytes or plain samples; `None` if zstd refuses them.
    pub fn new(learned: &[u8]) -> Option<Self> {
        Some(Self {
            packs: CDict::try_create(learned, LEVEL)?,
            unpacks: DDict::try_create(learned)?,
        })
    }

    /// Returns the memory of the dictionary, in bytes.
    pub fn size(&self) -> usize {
        self.packs.sizeof() + self.unpacks.sizeof()
    }
}

impl Default for Codec {
    fn default() -> Self {
        let cores = available_parallelism().map_or(1, usize::from);
        Self::keeping(cores.min(IDLE))
    }
}

impl Codec {
    fn keeping(most: usize) -> Self {
        Self {
            packers: Mutex::default(),
            unpackers: Mutex::default(),
            most,
        }
    }

    /// Packs JSON, or leaves it plain if packing does not make it smaller.
    pub fn pack(&self, json: &[u8], dictionary: Option<&Arc<Dictionary>>) -> Packed {
        let packed = self.tried(json, dictionary);
        let packed = packed.filter(|packed| packed.size() < json.len());
        let packed = packed.unwrap_or_else(|| Packed::Plain(json.into()));
        debug_assert!(
            self.unpack(&packed, |again| again == json).unwrap_or(false),
            "PACK-1: what is packed comes back"
        );
        packed
    }

    fn tried(&self, json: &[u8], dictionary: Option<&Arc<Dictionary>>) -> Option<Packed> {
        let length = u32::try_from(json.len()).ok()?;
        let idle = self.packers.lock().pop();
        let mut packer = idle.or_else(Packer::new)?;
        let bytes = packer.pack(json, dictionary.map(|dictionary| &**dictionary));
        if packer.context.sizeof() + packer.buffer.capacity() <= 2 * LARGE {
            self.put_back(&mut self.packers.lock(), packer);
        }
        Some(Packed::Zstd {
            bytes: bytes?,
            length,
            dictionary: dictionary.cloned(),
        })
    }

    /// Calls `look` with the unpacked JSON.
    ///
    /// # Errors
    ///
    /// [`Broken`] if the bytes cannot be unpacked: out of memory, or packed with another dictionary.
    pub fn unpack<R>(&self, packed: &Packed, look: impl FnOnce(&[u8]) -> R) -> Result<R, Broken> {
        let (bytes, length, dictionary) = match packed {
            Packed::Fresh(json) => return Ok(look(json)),
            Packed::Plain(json) => return Ok(look(json)),
            Packed::Zstd {
                bytes,
                length,
                dictionary,
            } => (bytes, *length as usize, dictionary.as_deref()),
        };
        let (context, mut buffer) = {
            let mut idle = self.unpackers.lock();
            (idle.contexts.pop(), idle.buffers.pop().unwrap_or_default())
        };
        let mut context = match context {
            Some(context) => context,
            None => DCtx::try_create().ok_or(Broken)?,
        };
        let unpacked = unpack(&mut context, &mut buffer, bytes, length, dictionary);
        self.put_back(&mut self.unpackers.lock().contexts, context);
        let looked = unpacked.map(|()| look(&buffer));
        if buffer.capacity() <= LARGE {
            self.put_back(&mut self.unpackers.lock().buffers, buffer);
        }
        looked
    }

    fn put_back<T>(&self, idle: &mut Vec<T>, tool: T) {
        if idle.len() < self.most {
            idle.push(tool);
        }
    }
}

impl Packer {
    fn new() -> Option<Self> {
        Some(Self {
            context: CCtx::try_create()?,
            buffer: Vec::new(),
        })
    }

    fn pack(&mut self, json: &[u8], dictionary: Option<&Dictionary>) -> Option<Arc<[u8]>> {
        self.buffer.clear();
        self.buffer.reserve(compress_bound(json.len()));
        let packed = match dictionary {
            None => self.context.compress(&mut self.buffer, json, LEVEL),
            Some(dictionary) => {
                let by = &dictionary.packs;
                self.context
                    .compress_using_cdict(&mut self.buffer, json, by)
            }
        };
        packed.ok()?;
        Some(self.buffer.as_slice().into())
    }
}

fn unpack(
    context: &mut DCtx<'static>,
    buffer: &mut Vec<u8>,
    bytes: &[u8],
    length: usize,
    dictionary: Option<&Dictionary>,
) -> Result<(), Broken> {
    buffer.clear();
    buffer.reserve(length);
    let unpacked = match dictionary {
        None => context.decompress(buffer, bytes),
        Some(dictionary) => context.decompress_using_ddict(buffer, bytes, &dictionary.unpacks),
    };
    match unpacked {
        Ok(found) if found == length => Ok(()),
        Ok(_) | Err(_) => Err(Broken),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn json(number: usize) -> Vec<u8> {
        let text = r#"{"metadata":{"name":"a","labels":{"app":"x"}},"data":{"key":"#;
        format!("{text}\"{}\"}}}}", number * 7919).into_bytes()
    }

    fn dictionary() -> Arc<Dictionary> {
        // zstd accepts any bytes as a dictionary: they count as preceding text.
        Arc::new(Dictionary::new(&json(3).repeat(4)).unwrap())
    }

    // PACK-1: a packed object unpacks to the same bytes.
    #[test]
    fn pack_1_unpacking_returns_the_json_and_json_that_does_not_shrink_stays_plain() {
        let codec = Codec::default();
        let dictionary = dictionary();
        let shrinks = json(5).repeat(20);
        for (by, text) in [(None, &shrinks), (Some(&dictionary), &json(8))] {
            let packed = codec.pack(text, by);
            assert!(packed.size() < text.len() / 2, "{packed:?}");
            assert_eq!(packed.length(), text.len());
            assert_eq!(packed.dictionary().is_some(), by.is_some());
            let same = codec.unpack(&packed, |unpacked| unpacked == &text[..]);
            assert!(same.unwrap());
        }
        let short = codec.pack(b"{}", None);
        assert!(matches!(&short, Packed::Plain(json) if **json == *b"{}"));
    }

    // PACK-1: a packed object unpacks to the same bytes.
    #[test]
    fn pack_1_bytes_that_do_not_unpack_are_an_error() {
        let codec = Codec::default();
        let dictionary = dictionary();
        let packed = codec.pack(&json(8), Some(&dictionary));
        let Packed::Zstd { bytes, length, .. } = packed else {
            panic!("{packed:?}");
        };
        let other = Arc::new(Dictionary::new(&json(4).repeat(3)).unwrap());
        let broken = [
            Packed::Zstd {
                bytes: b"none of zstd".to_vec().into(),
                length,
                dictionary: None,
            },
            Packed::Zstd {
                bytes: Arc::clone(&bytes),
                length: length - 1,
                dictionary: Some(dictionary),
            },
            Packed::Zstd {
                bytes: bytes[..bytes.len() / 2].into(),
                length,
                dictionary: Some(other),
            },
        ];
        for broken in broken {
            assert!(codec.unpack(&broken, <[u8]>::len).is_err(), "{broken:?}");
        }
        assert!(
            codec
                .unpack(&codec.pack(&json(1), None), <[u8]>::len)
                .is_ok()
        );
    }

    proptest! {
        // PACK-1: a packed object unpacks to the same bytes.
        #[test]
        fn pack_1_unpacking_returns_any_json_that_was_packed(
            bodies in prop::collection::vec((0..40_usize, any::<Vec<u8>>()), 0..40),
            by in any::<bool>(),
        ) {
            let codec = Codec::default();
            let mut text = Vec::new();
            for (number, bytes) in bodies {
                text.extend(json(number));
                text.extend(bytes);
            }
            let dictionary = by.then(dictionary);
            let packed = codec.pack(&text, dictionary.as_ref());
            prop_assert!(codec.unpack(&packed, |again| again == text).unwrap());
        }
    }

    #[test]
    fn contexts_are_reused_and_large_ones_are_dropped() {
        let codec = Codec::default();
        let idle = || {
            let unpackers = codec.unpackers.lock();
            let (contexts, buffers) = (unpackers.contexts.len(), unpackers.buffers.len());
            (codec.packers.lock().len(), contexts, buffers)
        };
        for number in 0..10 {
            let packed = codec.pack(&json(number).repeat(9), None);
            codec.unpack(&packed, |_| ()).unwrap();
        }
        assert_eq!(idle(), (1, 1, 1));
        let large = codec.pack(&json(1).repeat(LARGE / 20), None);
        codec.unpack(&large, |_| ()).unwrap();
        assert_eq!(idle(), (0, 1, 0));
    }

    #[test]
    fn a_caller_that_looks_at_json_holds_no_context() {
        /// Unpacks recursively, so that `many` callers hold unpacked JSON at the same time.
        fn look(codec: &Codec, packed: &Packed, many: usize) {
            if many > 0 {
                let looked = codec.unpack(packed, |_| {
                    assert_eq!(codec.unpackers.lock().contexts.len(), 1);
                    look(codec, packed, many - 1);
                });
                looked.unwrap();
            }
        }
        let codec = Codec::keeping(3);
        let packed = codec.pack(&json(5).repeat(20), None);
        for _ in 0..2 {
            look(&codec, &packed, 8);
            // Three of the eight buffers are kept for reuse.
            assert_eq!(codec.unpackers.lock().buffers.len(), 3);
        }
    }
}
