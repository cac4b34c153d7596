//! Machine: what is collected in pieces, so that it is never copied, and gives its room back as it is gone
//! over.

/// So many places are one piece: small enough that whatever comes after it fits where it was.
const PIECE: usize = 512;

/// Things in the order in which they came, each in a place that stays its own.
///
/// A vector that grows is copied into another one, and once it has gone leaves a hole that is larger than
/// anything that comes after it: with all objects of a list that is megabytes. A piece is neither copied
/// nor large.
#[derive(Debug)]
pub(crate) struct Pieces<T> {
    pieces: Vec<Vec<Option<T>>>,
    /// Places that are not empty.
    len: usize,
}

impl<T> Pieces<T> {
    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// The place that the next one comes to.
    pub(crate) fn next_place(&self) -> usize {
        let last = self.pieces.last().map_or(PIECE, Vec::len);
        self.pieces.len() * PIECE + last - PIECE
    }

    pub(crate) fn push(&mut self, thing: T) {
        match self.pieces.last_mut() {
            Some(last) if last.len() < PIECE => last.push(Some(thing)),
            _ => {
                let mut piece = Vec::with_capacity(PIECE);
                piece.push(Some(thing));
                self.pieces.push(piece);
            }
        }
        self.len += 1;
    }

    /// What is in a place.
    pub(crate) fn get(&self, place: usize) -> Option<&T> {
        self.pieces.get(place / PIECE)?.get(place % PIECE)?.as_ref()
    }

    /// Puts something into a place that there is, whatever was there before, or nothing.
    pub(crate) fn set(&mut self, place: usize, thing: Option<T>) {
        let piece = self.pieces.get_mut(place / PIECE);
        if let Some(there) = piece.and_then(|piece| piece.get_mut(place % PIECE)) {
            self.len -= usize::from(there.is_some());
            self.len += usize::from(thing.is_some());
            *there = thing;
        }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        self.pieces.iter().flatten().flatten()
    }

    /// All of them, in their order; each piece goes once it was gone over.
    pub(crate) fn into_items(self) -> impl Iterator<Item = T> {
        self.pieces.into_iter().flatten().flatten()
    }
}

impl<T> Default for Pieces<T> {
    fn default() -> Self {
        Self {
            pieces: Vec::new(),
            len: 0,
        }
    }
}

impl<T> FromIterator<T> for Pieces<T> {
    fn from_iter<I: IntoIterator<Item = T>>(things: I) -> Self {
        let mut pieces = Self::default();
        for thing in things {
            pieces.push(thing);
        }
        pieces
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_has_its_place_and_those_that_are_left_come_in_their_order() {
        let mut pieces = Pieces::default();
        for number in 0..2 * PIECE + 1 {
            assert_eq!(pieces.next_place(), number);
            pieces.push(number);
        }
        pieces.set(PIECE, None);
        pieces.set(PIECE, None);
        pieces.set(3, Some(7));
        pieces.set(5 * PIECE, Some(9));
        assert_eq!((pieces.get(PIECE), pieces.get(3)), (None, Some(&7)));
        assert_eq!(pieces.get(PIECE - 1), Some(&(PIECE - 1)));
        assert_eq!(pieces.len(), 2 * PIECE);
        let mut expected: Vec<usize> = (0..=2 * PIECE).filter(|at| *at != PIECE).collect();
        expected[3] = 7;
        assert!(pieces.iter().eq(&expected));
        assert!(pieces.into_items().eq(expected));
    }

    #[test]
    fn no_piece_is_moved_and_each_goes_once_it_was_gone_over() {
        let all: Pieces<Box<usize>> = (0..100 * PIECE).map(Box::new).collect();
        let counted = allocation_counter::measure(|| {
            let mut items = all.into_items();
            items.by_ref().take(50 * PIECE + 1).for_each(drop);
            std::mem::forget(items);
        });
        let gone = 50 * PIECE * (size_of::<usize>() + size_of::<Box<usize>>());
        let gone = i64::try_from(gone).unwrap();
        assert!(counted.bytes_current <= -gone, "{counted:?}");
        let counted = allocation_counter::measure(|| {
            let all: Pieces<usize> = (0..100 * PIECE).collect();
            drop(all);
        });
        let held = 100 * PIECE * size_of::<Option<usize>>();
        assert!(counted.bytes_max < u64::try_from(held * 21 / 20).unwrap());
    }
}
