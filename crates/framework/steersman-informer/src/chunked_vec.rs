//! Machine: a vector with chunks that are never moved and are freed one by one.

/// The number of items in a chunk: few enough that later allocations can use a freed chunk.
const CHUNK: usize = 512;

/// A vector in chunks. The index of an item never changes.
///
/// Unlike a `Vec`, it copies no items when it grows, and dropping it leaves no hole of megabytes in memory.
#[derive(Debug)]
pub(crate) struct ChunkedVec<T> {
    chunks: Vec<Vec<Option<T>>>,
    len: usize,
}

impl<T> ChunkedVec<T> {
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn next_index(&self) -> usize {
        let last = self.chunks.last().map_or(CHUNK, Vec::len);
        self.chunks.len() * CHUNK + last - CHUNK
    }

    pub(crate) fn push(&mut self, item: T) {
        match self.chunks.last_mut() {
            Some(last) if last.len() < CHUNK => last.push(Some(item)),
            _ => {
                let mut chunk = Vec::with_capacity(CHUNK);
                chunk.push(Some(item));
                self.chunks.push(chunk);
            }
        }
        self.len += 1;
    }

    pub(crate) fn get(&self, index: usize) -> Option<&T> {
        self.chunks.get(index / CHUNK)?.get(index % CHUNK)?.as_ref()
    }

    pub(crate) fn set(&mut self, index: usize, item: Option<T>) {
        let chunk = self.chunks.get_mut(index / CHUNK);
        if let Some(there) = chunk.and_then(|chunk| chunk.get_mut(index % CHUNK)) {
            self.len -= usize::from(there.is_some());
            self.len += usize::from(item.is_some());
            *there = item;
        }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        self.chunks.iter().flatten().flatten()
    }

    /// Returns the items in order. Each chunk is freed once its last item was returned.
    pub(crate) fn into_items(self) -> impl Iterator<Item = T> {
        self.chunks.into_iter().flatten().flatten()
    }
}

impl<T> Default for ChunkedVec<T> {
    fn default() -> Self {
        Self {
            chunks: Vec::new(),
            len: 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl<T> FromIterator<T> for ChunkedVec<T> {
        fn from_iter<I: IntoIterator<Item = T>>(items: I) -> Self {
            let mut chunks = Self::default();
            for item in items {
                chunks.push(item);
            }
            chunks
        }
    }

    #[test]
    fn items_keep_their_indexes_and_their_order() {
        let mut chunks = ChunkedVec::default();
        for number in 0..2 * CHUNK + 1 {
            assert_eq!(chunks.next_index(), number);
            chunks.push(number);
        }
        chunks.set(CHUNK, None);
        chunks.set(CHUNK, None);
        chunks.set(3, Some(7));
        chunks.set(5 * CHUNK, Some(9));
        assert_eq!((chunks.get(CHUNK), chunks.get(3)), (None, Some(&7)));
        assert_eq!(chunks.get(CHUNK - 1), Some(&(CHUNK - 1)));
        assert_eq!(chunks.len(), 2 * CHUNK);
        let mut expected: Vec<usize> = (0..=2 * CHUNK).filter(|at| *at != CHUNK).collect();
        expected[3] = 7;
        assert!(chunks.iter().eq(&expected));
        assert!(chunks.into_items().eq(expected));
    }

    #[test]
    fn no_chunk_is_moved_and_each_is_freed_after_its_last_item() {
        let all: ChunkedVec<Box<usize>> = (0..100 * CHUNK).map(Box::new).collect();
        let counted = allocation_counter::measure(|| {
            let mut items = all.into_items();
            items.by_ref().take(50 * CHUNK + 1).for_each(drop);
            std::mem::forget(items);
        });
        let gone = 50 * CHUNK * (size_of::<usize>() + size_of::<Box<usize>>());
        let gone = i64::try_from(gone).unwrap();
        assert!(counted.bytes_current <= -gone, "{counted:?}");
        let counted = allocation_counter::measure(|| {
            let all: ChunkedVec<usize> = (0..100 * CHUNK).collect();
            drop(all);
        });
        let held = 100 * CHUNK * size_of::<Option<usize>>();
        assert!(counted.bytes_max < u64::try_from(held * 21 / 20).unwrap());
    }
}
