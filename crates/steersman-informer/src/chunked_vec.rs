//! Machine: what is collected in pieces, so that it is never copied, and gives its room back as it is gone
//! over.

/// So many places are one piece: small enough that whatever comes after it fits where it was.
const CHUNK: usize = 512;

/// Things in the order in which they came, each in a place that stays its own.
///
/// A vector that grows is copied into another one, and once it has gone leaves a hole that is larger than
/// anything that comes after it: with all objects of a list that is megabytes. A piece is neither copied
/// nor large.
#[derive(Debug)]
pub(crate) struct ChunkedVec<T> {
    chunks: Vec<Vec<Option<T>>>,
    /// Places that are not empty.
    len: usize,
}

impl<T> ChunkedVec<T> {
    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// The place that the next one comes to.
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

    /// What is in a place.
    pub(crate) fn get(&self, index: usize) -> Option<&T> {
        self.chunks.get(index / CHUNK)?.get(index % CHUNK)?.as_ref()
    }

    /// Puts something into a place that there is, whatever was there before, or nothing.
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

    /// All of them, in their order; each piece goes once it was gone over.
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

impl<T> FromIterator<T> for ChunkedVec<T> {
    fn from_iter<I: IntoIterator<Item = T>>(items: I) -> Self {
        let mut chunks = Self::default();
        for item in items {
            chunks.push(item);
        }
        chunks
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_has_its_place_and_those_that_are_left_come_in_their_order() {
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
    fn no_piece_is_moved_and_each_goes_once_it_was_gone_over() {
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
