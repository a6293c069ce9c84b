//! Brands, and characters that are used to count or measure.

use std::sync::LazyLock;

use hashbrown::{HashMap, HashSet};

/// Companies that people name without an ending. Most complaints of a hotline name one of them.
const BRAND_WORDS: &str = "电信 联通 移动 广电 铁塔 邮政 顺丰 京东 淘宝 天猫 拼多多 抖音 快手 美团 饿了么 滴滴 摩拜 \
    哈罗 哈啰 青桔 支付宝 微信 中石化 中石油 国家电网 南方电网";

/// The brands by their first characters: at nearly every place of a text one lookup is enough.
static BRANDS: LazyLock<HashMap<char, Vec<&str>>> = LazyLock::new(|| {
    let mut brands: HashMap<char, Vec<&str>> = HashMap::new();
    for brand in BRAND_WORDS.split_whitespace() {
        brands.entry(brand.chars().next().unwrap_or_default()).or_default().push(brand);
    }
    brands
});

/// Units and counted things: a number before one of them is no name.
const UNITS: &str = "元块米平分小天个月年人户次万岁层台辆条家公点几名亩吨斤度届期周楼日时秒位只项份张件本种批倍组间号栋幢座单室房弄千百亿毫厘克升瓦伏";

/// Units in Latin letters, which follow a number without a space.
const LATIN_UNITS: &str = "m cm mm km g kg mg t l ml w kw kwh v kv kva ma mah hz khz mhz ghz k kb mb gb tb kbps mbps gbps db rpm h min s ms px rmb";

static UNIT_SET: LazyLock<HashSet<char>> = LazyLock::new(|| UNITS.chars().collect());

/// Returns the brand at the beginning of `text`.
pub(super) fn brand(text: &str) -> Option<&'static str> {
    let brands = BRANDS.get(&text.chars().next()?)?;
    brands.iter().copied().find(|brand| text.starts_with(brand))
}

/// True for digits with a unit in Latin letters: 160cm.
pub(super) fn is_latin_measure(run: &str) -> bool {
    let unit = run.trim_start_matches(|c: char| c.is_ascii_digit());
    unit.len() < run.len() && LATIN_UNITS.split(' ').any(|known| unit == known)
}

/// True if the character is used to count or measure.
pub(super) fn is_unit(c: char) -> bool {
    UNIT_SET.contains(&c)
}
