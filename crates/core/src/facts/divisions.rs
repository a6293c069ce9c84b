//! The administrative divisions of China: provinces, cities, districts and counties; towns and street offices.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::LazyLock;

use super::chars::{Chars, is_ideograph};
use super::{FactKind, FactSource, Found};

/// Names without their endings, in sections that state the ending.
const LIST: &str = include_str!("../../data/divisions.txt");

/// Maximum length of a name that is looked up, in characters.
const MAX_NAME: usize = 12;

/// Cities and districts whose names are also common words: without the ending the word is no name.
const COMMON_WORDS: &str = "朝阳 和平 平安 新华 长安 城关 东风 解放 高新 市中 郊 城中 东城 西城 南山 东山 西山 桥西 桥东 路南 路北 河东 河西 江北 江南 城东 城西 城南 \
    城北 新城 老城 开发 民主 友好 红旗 向阳 前进 胜利 光明 振兴 文化 铁东 铁西 站前 港口 海港 港区 双桥 北关 南关 新市 安定 永定 大方 南部 中山 南开 东港 新建 鼓楼 \
    通道 通海 开平 安居 合作 统一 自由 繁华 平和 安全 建设 新区 中站 工农 立山 明山 金山 青山 白云 西湖 东湖 南湖 北湖 大同 太和 太平 兴隆 兴安 新兴 新民 民乐 \
    民和 永安 永和 永兴 永康 吉安 平遥 富裕 富民 康乐 和顺 商城 和静 定安 宝山 龙山 凤凰 石峰 云龙 天元 天心 芙蓉";

/// The divisions by a hash of their names.
struct Divisions {
    kinds: HashMap<u64, FactKind, BuildHasherDefault<NameHash>>,
    /// Districts without their endings.
    stems: HashMap<u64, (), BuildHasherDefault<NameHash>>,
}

/// A hasher for keys that are hashes already.
#[derive(Default)]
struct NameHash(u64);

impl Hasher for NameHash {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        self.0 = bytes.iter().fold(self.0, |hash, &byte| hash.rotate_left(8) ^ u64::from(byte));
    }

    fn write_u64(&mut self, key: u64) {
        self.0 = key;
    }
}

static DIVISIONS: LazyLock<Divisions> = LazyLock::new(|| {
    let mut divisions = Divisions { kinds: HashMap::default(), stems: HashMap::default() };
    let mut kind = FactKind::District;
    let mut ending = "";
    let common: Vec<&str> = COMMON_WORDS.split_whitespace().collect();
    for line in LIST.lines().filter(|line| !line.starts_with('#')) {
        if let Some((level, name)) = line.strip_prefix('[').and_then(|line| line.strip_suffix(']')?.split_once(' ')) {
            kind = if level == "district" { FactKind::District } else { FactKind::Town };
            ending = name;
            continue;
        }
        let name = line.chars().rev();
        let whole = ending.chars().rev().chain(name.clone());
        // Names of two characters are common words, except the names of counties.
        if kind == FactKind::Town && line.chars().nth(1).is_none() {
            continue;
        }
        divisions.kinds.entry(whole.fold(SEED, mix)).or_insert(kind);
        if kind == FactKind::District && line.chars().nth(1).is_some() && !common.contains(&line) {
            divisions.stems.insert(name.fold(SEED, mix), ());
        }
    }
    divisions
});

const SEED: u64 = 0x9e37_79b9_7f4a_7c15;

/// Adds a character to a hash.
fn mix(hash: u64, c: char) -> u64 {
    let mixed = (hash ^ u64::from(c as u32)).wrapping_mul(0xd6e8_feb8_6659_fd93);
    mixed ^ mixed >> 32
}

/// Returns the start and the kind of the longest division whose name ends before `end`.
pub(super) fn before(text: &Chars, end: usize) -> Option<(usize, FactKind)> {
    let mut hash = SEED;
    let mut longest = None;
    for at in (end.saturating_sub(MAX_NAME)..end).rev() {
        if !is_ideograph(text.at(at)) {
            break;
        }
        hash = mix(hash, text.at(at));
        if let Some(&kind) = DIVISIONS.kinds.get(&hash) {
            longest = Some((at, kind));
        }
    }
    longest
}

/// True if the characters from `start` to `end` are a city, a district or a county without its ending.
pub(super) fn is_stem(text: &Chars, start: usize, end: usize) -> bool {
    let hash = text.as_slice()[start..end].iter().rev().fold(SEED, |hash, &c| mix(hash, c));
    (2..=4).contains(&(end - start)) && DIVISIONS.stems.contains_key(&hash)
}

/// Reads the division whose last character is at `at`. Returns the position where reading continues.
pub(super) fn read(found: &mut Found<'_>, at: usize) -> Option<usize> {
    let text = found.text;
    let end = at + 1;
    let (start, kind, source) = match before(text, end) {
        Some((start, kind)) => (start, kind, FactSource::DivisionList),
        // Some offices hide names and write a2区, k县.
        None => {
            let coded = text.skip_back(at, 2, |c| c.is_ascii_digit());
            let letter = coded.checked_sub(1)?;
            let alone = text.at(letter).is_ascii_lowercase() && !text.before(letter).is_ascii_alphanumeric();
            let numbered = coded < at || matches!(text.at(at), '市' | '县' | '省');
            if !alone || !numbered || !matches!(text.at(at), '省' | '市' | '区' | '县' | '镇' | '乡') {
                return None;
            }
            let kind = if matches!(text.at(at), '镇' | '乡') { FactKind::Town } else { FactKind::District };
            (letter, kind, FactSource::Pattern)
        }
    };
    // A division does not end in the middle of a word: the text 河东区域 does not name 河东区.
    if source == FactSource::DivisionList && NOT_AT_END.at(text, at).is_some() {
        return None;
    }
    let name = text.string(start..end);
    let office = text.starts(end - 2, "街道").and_then(|end| text.starts_any(end, &["办事处", "办"]));
    let end = office.unwrap_or(end);
    found.add_from(kind, start..end, name, source);
    Some(end)
}

super::literals::literals! {
    /// Words that begin with the ending of a division.
    NOT_AT_END,
    "区域 区间 区别 区分 区划 市场 市民 市容 市政 市区 市面 市值 县城 道路 道德 道理 道口 道闸 道具 省钱 省心 省略 州府 旗下 旗舰 旗帜 乡亲 乡村 乡镇 乡下 镇静 镇痛 县域 县级 市级"
}
