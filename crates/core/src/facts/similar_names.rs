//! Whether two names mean one thing.
//!
//! People abbreviate, mistype and leave out districts and endings. What tells two things of one name apart is a number or a side: the
//! third and the fifth school, the east and the west road.

use super::FactKind;
use super::endings;
use super::numerals::is_numeral;

/// Shortest core of a name that identifies a thing inside a longer name, in characters.
const MIN_CORE: usize = 2;
/// Shortest name of which letters may be left out.
const MIN_ABBREVIATION: usize = 3;
/// One wrong character is allowed for each so many.
const CHARS_PER_TYPO: usize = 4;

/// Characters of which one instead of another names another thing.
const OPPOSITES: [&str; 8] = ["东西南北中", "上中下", "前中后", "左右", "内外", "大中小", "新老旧", "甲乙丙丁戊"];

/// What two names are to each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Likeness {
    /// They mean one thing.
    Same,
    /// They are told apart by a number or a side only.
    Sibling,
    /// They mean different things.
    Different,
}

/// Compares two canonical names of the kinds given. O(length²) of names, which are short.
pub(super) fn compare(kind_a: FactKind, a: &str, kind_b: FactKind, b: &str) -> Likeness {
    if a == b {
        return Likeness::Same;
    }
    let (chars_a, chars_b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    if is_sibling(&chars_a, &chars_b) {
        return if kind_a == kind_b { Likeness::Sibling } else { Likeness::Different };
    }
    let (core_a, core_b) = (endings::core(&chars_a), endings::core(&chars_b));
    let same = is_contained(core_a, core_b) || (kind_a == kind_b && is_variant(&chars_a, &chars_b, core_a, core_b));
    if same { Likeness::Same } else { Likeness::Different }
}

/// True if one core is the other, with something before or behind it that is no number.
fn is_contained(a: &[char], b: &[char]) -> bool {
    let (short, long) = if a.len() <= b.len() { (a, b) } else { (b, a) };
    let least = if short.len() == long.len() { 1 } else { MIN_CORE };
    if short.len() < least {
        return false;
    }
    let tells_apart = |c: Option<&char>| c.is_some_and(|&c| is_telling(c));
    long.windows(short.len()).enumerate().any(|(at, window)| {
        window == short
            && !tells_apart(long.get(at + short.len()))
            && !(tells_apart(short.last()) && at + short.len() < long.len())
    })
}

/// True for a character that tells things of one name apart.
fn is_telling(c: char) -> bool {
    c.is_ascii_digit() || is_numeral(c) || OPPOSITES.iter().any(|opposites| opposites.contains(c))
}

/// True if one name is an abbreviation of the other, or one of them is mistyped.
fn is_variant(a: &[char], b: &[char], core_a: &[char], core_b: &[char]) -> bool {
    let shorter = a.len().min(b.len());
    let (short, long) = if a.len() <= b.len() { (a, b) } else { (b, a) };
    let abbreviated = shorter >= MIN_ABBREVIATION && short.last() == long.last() && is_subsequence(short, long);
    // A core of two characters is another name if one of them differs.
    let long_cores = core_a.len().min(core_b.len()) + 1 >= CHARS_PER_TYPO;
    let typos = shorter / CHARS_PER_TYPO;
    abbreviated || (typos > 0 && long_cores && is_near(a, b, typos))
}

/// True if two names differ by one number or one side only. One of them may have more in front: a district.
fn is_sibling(a: &[char], b: &[char]) -> bool {
    let back = a.iter().rev().zip(b.iter().rev()).take_while(|(x, y)| x == y && !x.is_ascii_digit()).count();
    let (a, b) = (&a[..a.len() - back], &b[..b.len() - back]);
    let number = |name: &[char]| name.iter().rev().take_while(|&&c| c.is_ascii_digit() || is_numeral(c)).count();
    let (digits_a, digits_b) = (number(a), number(b));
    let ends = |a: &[char], b: &[char]| a.ends_with(b) || b.ends_with(a);
    if digits_a > 0 && digits_b > 0 {
        let (before_a, number_a) = a.split_at(a.len() - digits_a);
        let (before_b, number_b) = b.split_at(b.len() - digits_b);
        return number_a != number_b && ends(before_a, before_b);
    }
    let (Some((x, a)), Some((y, b))) = (a.split_last(), b.split_last()) else { return false };
    let opposite = OPPOSITES.iter().any(|opposites| opposites.contains(*x) && opposites.contains(*y));
    let named = !a.is_empty() || !b.is_empty() || back > 1;
    opposite && x != y && named && ends(a, b)
}

/// True if the characters of `short` occur in `long` in their order.
fn is_subsequence(short: &[char], long: &[char]) -> bool {
    let mut long = long.iter();
    short.iter().all(|c| long.any(|other| other == c))
}

/// True if at most `typos` characters were replaced, or one was added or left out; none of them tells things apart.
fn is_near(a: &[char], b: &[char], typos: usize) -> bool {
    if a.len() == b.len() {
        let differ = a.iter().zip(b).filter(|(x, y)| x != y);
        let telling = differ.clone().any(|(&x, &y)| is_telling(x) && is_telling(y));
        return !telling && differ.count() <= typos;
    }
    if a.len().abs_diff(b.len()) != 1 {
        return false;
    }
    let front = a.iter().zip(b).take_while(|(x, y)| x == y).count();
    let back = a[front..].iter().rev().zip(b[front..].iter().rev()).take_while(|(x, y)| x == y).count();
    let longer = if a.len() > b.len() { a } else { b };
    longer.len() - front - back == 1 && !is_telling(longer[front])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(expected: Likeness, kind: FactKind, pairs: &[(&str, &str)]) {
        for (a, b) in pairs {
            assert_eq!(compare(kind, a, kind, b), expected, "{a} {b}");
            assert_eq!(compare(kind, b, kind, a), expected, "{b} {a}");
        }
    }

    #[test]
    fn names_are_compared_leniently() {
        check(Likeness::Same, FactKind::District, &[("雁江区", "雁江"), ("河口市雁江区", "雁江区")]);
        check(
            Likeness::Same,
            FactKind::Estate,
            &[("翠湖花园", "翠湖花园小区"), ("锦绣翠湖花园", "翠湖花园"), ("翠湖天境小区", "翠糊天境小区")],
        );
        check(
            Likeness::Same,
            FactKind::Organisation,
            &[("河口市社会保障局", "河口社保局"), ("云帆置业有限公司", "云帆置业公司")],
        );
        check(Likeness::Same, FactKind::School, &[("柳塘第3小学", "河口市柳塘第3小学")]);
        check(
            Likeness::Different,
            FactKind::Estate,
            &[("翠湖花园", "锦绣花园"), ("翠湖天境", "雁坪府"), ("金湾小区", "银湾小区")],
        );
    }

    #[test]
    fn a_number_or_a_side_tells_things_of_one_name_apart() {
        check(
            Likeness::Sibling,
            FactKind::School,
            &[("第3中学", "第5中学"), ("河口市第3中学", "第5中学"), ("柳塘1小", "柳塘2小")],
        );
        check(
            Likeness::Sibling,
            FactKind::Road,
            &[("学府东路", "学府西路"), ("松岗1路", "松岗12路"), ("3号路", "5号路")],
        );
        check(Likeness::Different, FactKind::Road, &[("学府路", "龙津路")]);
    }
}
