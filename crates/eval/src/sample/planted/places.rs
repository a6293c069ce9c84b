//! The places of planted events, each with the forms in which people write it.

use super::super::orders::stem;
use super::super::rng::RandomStream;

/// Percentage of names that people also write without the ending.
const SHORTENED: usize = 40;

/// The kind of a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PlaceKind {
    Estate,
    Market,
    River,
    Road,
    School,
    Village,
}

/// A place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PlantedPlace {
    /// The whole name: two or three characters and an ending.
    pub(super) name: String,
    /// The name without its ending, for a place that people also write in this form.
    short: Option<String>,
}

impl PlantedPlace {
    /// Makes a place of a kind.
    pub(super) fn new(kind: PlaceKind, rng: &mut RandomStream) -> Self {
        let mut own = stem(rng);
        let endings: &[&str] = match kind {
            PlaceKind::Estate => &["小区", "小区", "花园", "家园", "新村", "公寓"],
            PlaceKind::Market => &["农贸市场", "菜市场", "批发市场", "市场"],
            PlaceKind::River => &["河", "溪", "渠", "港"],
            PlaceKind::Road => &["路", "路", "街", "大道", "巷", "东路"],
            PlaceKind::School => &["小学", "中学", "学校", "幼儿园"],
            PlaceKind::Village => &["村", "村", "社区", "湾"],
        };
        let ending = rng.pick(endings);
        // Two characters alone are no name, so that only longer names lose their endings.
        let has_three = matches!(kind, PlaceKind::Estate | PlaceKind::Market | PlaceKind::School) && rng.chance(60);
        if has_three {
            own.push_str(rng.pick(&["苑", "园", "湾", "庭", "里", "城", "坪", "岭"]));
        }
        let short = (has_three && rng.chance(SHORTENED)).then(|| own.clone());
        Self { name: own + ending, short }
    }

    /// Returns the name in the form of one mention.
    pub(super) fn mention(&self, rng: &mut RandomStream) -> &str {
        match &self.short {
            Some(short) if rng.chance(50) => short,
            _ => &self.name,
        }
    }
}
