//! Sets of literals that are searched at one position.

use hashbrown::{HashMap, HashSet};

use super::chars::Chars;

/// A set of literals. At most positions, one character is enough to see that no literal of the set is there.
#[derive(Debug, Default)]
pub(super) struct Literals {
    set: HashSet<String>,
    /// The literals by their first characters.
    by_first: HashMap<char, Vec<Vec<char>>>,
    /// The literals by their last characters.
    by_last: HashMap<char, Vec<Vec<char>>>,
    /// A filter for the first characters of the literals.
    first: Filter,
    /// A filter for the last characters of the literals.
    last: Filter,
}

/// A set of characters, in the form of bits for an 8-bit hash of each character.
#[derive(Clone, Debug, Default)]
pub(super) struct Filter([u64; 4]);

impl Filter {
    fn place(c: char) -> (usize, u64) {
        let hash = (c as u32 ^ (c as u32) >> 8) & 255;
        ((hash >> 6) as usize, 1 << (hash & 63))
    }

    pub(super) fn add(&mut self, c: char) {
        let (word, bit) = Self::place(c);
        self.0[word] |= bit;
    }

    #[inline]
    pub(super) fn may_contain(&self, c: char) -> bool {
        let (word, bit) = Self::place(c);
        self.0[word] & bit != 0
    }
}

impl Literals {
    /// Creates the set of the literals in `list`, which are separated by white space.
    pub(super) fn new(list: &str) -> Self {
        let mut literals = Self::default();
        for literal in list.split_whitespace() {
            let chars: Vec<char> = literal.chars().collect();
            let last = chars[chars.len() - 1];
            literals.first.add(chars[0]);
            literals.last.add(last);
            literals.by_first.entry(chars[0]).or_default().push(chars.clone());
            literals.by_last.entry(last).or_default().push(chars);
            literals.set.insert(literal.to_owned());
        }
        literals
    }

    /// Returns the end of the longest literal that `text` has at `at`.
    #[inline]
    pub(super) fn at(&self, text: &Chars, at: usize) -> Option<usize> {
        self.first.may_contain(text.at(at)).then(|| self.longest_at(text, at))?
    }

    /// Returns the start of the longest literal that `text` has just before `end`.
    #[inline]
    pub(super) fn before(&self, text: &Chars, end: usize) -> Option<usize> {
        self.last.may_contain(text.before(end)).then(|| self.longest_before(text, end))?
    }

    /// True if one of the literals lies within the characters from `start` to `end`.
    pub(super) fn occur(&self, text: &Chars, start: usize, end: usize) -> bool {
        (start..end).any(|at| self.at(text, at).is_some_and(|stop| stop <= end))
    }

    /// True if `literal` is one of the set.
    pub(super) fn contains(&self, literal: &str) -> bool {
        self.set.contains(literal)
    }

    /// True if `text` is a single character and a literal of the set after it.
    pub(super) fn ends_single(&self, text: &str) -> bool {
        let chars: Vec<char> = text.chars().collect();
        let mut ending = chars.last().and_then(|last| self.by_last.get(last)).into_iter().flatten();
        ending.any(|literal| chars.len() == literal.len() + 1 && chars.ends_with(literal))
    }

    fn longest_at(&self, text: &Chars, at: usize) -> Option<usize> {
        let rest = text.as_slice().get(at..)?;
        let found = self.by_first.get(rest.first()?)?.iter().filter(|literal| rest.starts_with(literal));
        found.map(|literal| at + literal.len()).max()
    }

    fn longest_before(&self, text: &Chars, end: usize) -> Option<usize> {
        let rest = text.as_slice().get(..end)?;
        let found = self.by_last.get(rest.last()?)?.iter().filter(|literal| rest.ends_with(literal));
        found.map(|literal| end - literal.len()).min()
    }
}

/// Declares a static set of literals.
macro_rules! literals {
    ($(#[$doc:meta])* $name:ident, $list:expr) => {
        $(#[$doc])*
        pub(super) static $name: std::sync::LazyLock<$crate::facts::literals::Literals> =
            std::sync::LazyLock::new(|| $crate::facts::literals::Literals::new($list));
    };
}
pub(super) use literals;
