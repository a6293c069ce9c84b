//! Changes of a record. After a harmless change the record still concerns the same matter; after a harmful change it names another object.
//!
//! The changes are deterministic for a seed. All added text is invented.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::dataset::LabelledSet;
use doppel_core::record::Row;
use doppel_core::text::objects::NamedObject;
use doppel_core::text::problems::{kind_count, problem_kinds, problem_topics, topics_of_kind, words_of_kind};
use doppel_core::verdict::ObjectKind;

/// Number of characters between two typing errors.
const TYPO_EVERY: usize = 50;
/// Minimum length of a name that replaces another name, in characters.
const MIN_NAME_CHARS: usize = 3;

/// A generator of random numbers: xorshift64 (Marsaglia 2003), deterministic for a seed.
#[derive(Clone, Debug)]
pub struct XorShift64(u64);

impl XorShift64 {
    /// Creates a generator for a seed.
    pub fn new(seed: u64) -> Self {
        Self((seed + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15))
    }

    /// Returns a number from 0 to `below` - 1; 0 if `below` is 0.
    pub fn below(&mut self, below: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % below.max(1) as u64) as usize
    }

    fn pick<'a, T: ?Sized>(&mut self, list: &[&'a T]) -> &'a T {
        list[self.below(list.len())]
    }
}

/// A change after which a record still concerns the same matter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum HarmlessChange {
    /// One typing error in fifty characters.
    Typo,
    /// An additional sentence before and after the text.
    MoreSentences,
    /// Another order: another sentence becomes the first.
    SentenceOrder,
    /// A second letter that quotes the first one.
    Quotation,
    /// A telephone number that only the sender of this record has.
    Phone,
    /// An identity number that only the sender of this record has.
    IdentityNumber,
    /// A link to a file.
    Link,
    /// A signature with a date.
    Signature,
    /// Other punctuation.
    Punctuation,
    /// Full-width letters and digits.
    FullWidth,
    /// Chinese numerals instead of single digits.
    Numerals,
    /// A hashtag and the name of an account.
    Hashtag,
    /// An instruction of the office.
    Footer,
    Greeting,
    /// A closing phrase.
    Closing,
    /// White space between sentences.
    WhiteSpace,
    /// Radicals that look like ideographs, as in text that is copied from a PDF file.
    Radicals,
    /// Traditional characters.
    Traditional,
    /// Another word with the same meaning.
    Synonym,
}

impl HarmlessChange {
    pub const ALL: [Self; 19] = [
        Self::Typo,
        Self::MoreSentences,
        Self::SentenceOrder,
        Self::Quotation,
        Self::Phone,
        Self::IdentityNumber,
        Self::Link,
        Self::Signature,
        Self::Punctuation,
        Self::FullWidth,
        Self::Numerals,
        Self::Hashtag,
        Self::Footer,
        Self::Greeting,
        Self::Closing,
        Self::WhiteSpace,
        Self::Radicals,
        Self::Traditional,
        Self::Synonym,
    ];

    /// True for a change that has no effect after contacts and noise are removed and characters are normalised.
    pub fn is_removed(self) -> bool {
        !matches!(self, Self::Typo | Self::MoreSentences | Self::SentenceOrder | Self::Quotation | Self::Synonym)
    }

    /// Returns the name in tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::Typo => "typing error",
            Self::MoreSentences => "more sentences",
            Self::SentenceOrder => "order of sentences",
            Self::Quotation => "quotation",
            Self::Phone => "phone",
            Self::IdentityNumber => "identity number",
            Self::Link => "link",
            Self::Signature => "signature",
            Self::Punctuation => "punctuation",
            Self::FullWidth => "full width",
            Self::Numerals => "numerals",
            Self::Hashtag => "hashtag",
            Self::Footer => "footer",
            Self::Greeting => "greeting",
            Self::Closing => "closing",
            Self::WhiteSpace => "white space",
            Self::Radicals => "radicals",
            Self::Traditional => "traditional characters",
            Self::Synonym => "synonym",
        }
    }

    /// Returns the set with the change in each record. Each record gets its own telephone number, link, and so on.
    pub fn change_set(self, set: &LabelledSet) -> LabelledSet {
        let mut changed = set.clone();
        for (at, (_, row)) in changed.records.iter_mut().enumerate() {
            if let Some(copy) = self.change(row, &mut XorShift64::new(at as u64)) {
                *row = copy;
            }
        }
        changed
    }

    /// Returns a row with the change in its longest text; `None` if the row has no text.
    pub fn change(self, row: &Row, random: &mut XorShift64) -> Option<Row> {
        with_longest_text(row, |text| self.changed(text, random))
    }

    fn changed(self, text: &str, random: &mut XorShift64) -> String {
        const SENTENCES: [&str; 4] = [
            "上次来信没有得到答复,请给一个明确的时间。",
            "此事已经反映多次,至今没有人处理。",
            "我们也向社区说过,都说不归他们管。",
            "希望派人到现场看一看。",
        ];
        match self {
            Self::Typo => mistyped(text, random),
            Self::MoreSentences => format!("{}{text}{}", random.pick(&SENTENCES), random.pick(&SENTENCES)),
            Self::SentenceOrder => reordered(text, random),
            Self::Quotation => format!("我再次反映:{text}以上问题到现在也没有解决。"),
            Self::Phone => format!("{text}联系电话1{}{:09}。", 3 + random.below(6), random.below(1_000_000_000)),
            Self::IdentityNumber => format!(
                "{text}身份证号{}19{}0{}{}{}。",
                110_000 + random.below(540_000),
                50 + random.below(49),
                1 + random.below(8),
                10 + random.below(18),
                1_000 + random.below(8_999)
            ),
            Self::Link => {
                let day = random.below(365);
                let number = random.below(1_000_000);
                format!("{text} 附件:https://letters.example.org/upload/{day:03}/IMG_{number:06}.jpg")
            }
            Self::Signature => {
                let name = random.pick(&["赵", "钱", "孙", "李", "周", "吴", "郑", "王"]);
                format!("{text}\n反映人:{name}某某  2024年{}月{}日", 1 + random.below(12), 1 + random.below(28))
            }
            Self::Punctuation => with_other_marks(text, random),
            Self::FullWidth => text.chars().map(full_width).collect(),
            Self::Numerals => with_numerals(text, random),
            Self::Hashtag => format!("{text}#问政平台#来自网友{}的帖子", random.below(1_000)),
            Self::Footer => format!("{text}（请承办单位按规定在5个工作日内联系来件人并反馈办理情况）"),
            Self::Greeting => format!("{}{text}", random.pick(&["尊敬的领导:您好!", "您好,", "领导你好:"])),
            Self::Closing => format!("{text}{}", random.pick(&["谢谢!", "盼复。", "恳请领导重视。"])),
            Self::WhiteSpace => text.replace('。', "。\n\n  ").replace('，', "， "),
            Self::Radicals => with_other_forms(text, RADICALS),
            Self::Traditional => with_other_forms(text, TRADITIONAL),
            Self::Synonym => with_synonym(text, random),
        }
    }
}

/// Returns a text in which each Chinese mark is replaced by another mark or removed.
fn with_other_marks(text: &str, random: &mut XorShift64) -> String {
    let mut changed = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '，' | '。' | '！' | '？' | '；' | '：' | '、' => {
                changed.push_str(random.pick(&[" ", ",", "。", ""]));
            }
            other => changed.push(other),
        }
    }
    changed
}

/// Returns the full-width form of an ASCII character, and other characters as they are.
fn full_width(c: char) -> char {
    char::from_u32(u32::from(c) + 0xfee0).filter(|_| ('!'..='~').contains(&c)).unwrap_or(c)
}

/// Returns a row with a change in its longest text; `None` if the row has no text.
fn with_longest_text(row: &Row, change: impl FnOnce(&str) -> String) -> Option<Row> {
    let mut value: Value = serde_json::from_str(row.json()).ok()?;
    let members = value.as_object_mut()?;
    let (_, longest) = members
        .iter_mut()
        .filter(|(name, value)| *name != "id" && value.is_string())
        .max_by_key(|(_, value)| value.as_str().map_or(0, str::len))?;
    *longest = change(longest.as_str()?).into();
    Row::parse(value.to_string().as_bytes()).ok()
}

/// Returns an order with a number, and a shorter call that cites the number; `None` if the row has no text.
pub fn citation(row: &Row, random: &mut XorShift64) -> Option<(Row, Row)> {
    let number = format!("2024{:02}{:02}{:06}", 1 + random.below(12), 1 + random.below(28), random.below(1_000_000));
    let order = with_longest_text(row, |text| format!("{text}（工单编号：{number}）"))?;
    let call = with_longest_text(row, |text| format!("催办工单{number}，到今天还没有人来。{}", beginning(text)))?;
    Some((order, call))
}

fn beginning(text: &str) -> String {
    text.chars().take(text.chars().count() * 2 / 5).collect()
}

/// Returns an order, a shorter call about the same matter, and a call about the matter of another row, all with the same telephone number;
/// `None` if a row has no text.
pub fn calls(row: &Row, other: &Row, random: &mut XorShift64) -> Option<[Row; 3]> {
    let phone = format!("1{}{:09}", 3 + random.below(6), random.below(1_000_000_000));
    let order = with_longest_text(row, |text| format!("{text}联系电话{phone}。"))?;
    let second = with_longest_text(row, |text| format!("请问什么时候有人来,{},电话{phone}", beginning(text)))?;
    let other = with_longest_text(other, |text| format!("{text}联系电话{phone}。"))?;
    Some([order, second, other])
}

/// Ideographs, each followed by the radical that looks like it.
const RADICALS: &str = "一⼀人⼈入⼊八⼋刀⼑力⼒十⼗口⼝土⼟大⼤女⼥子⼦小⼩山⼭工⼯己⼰干⼲手⼿文⽂方⽅日⽇月⽉木⽊水⽔火⽕父⽗牛⽜玉⽟生⽣用⽤田⽥白⽩目⽬石⽯立⽴竹⽵米⽶老⽼耳⽿自⾃至⾄行⾏衣⾐角⾓言⾔走⾛足⾜身⾝里⾥金⾦雨⾬面⾯音⾳食⾷高⾼";
/// Simplified characters, each followed by its traditional form.
const TRADITIONAL: &str = "国國学學车車区區业業电電话話门門间間问問题題请請还還给給边邊对對开開关關长長时時这這们們来來没沒处處无無现現实實务務员員办辦费費钱錢产產楼樓医醫药藥环環违違规規单單报報价價东東号號乐樂农農场場厂廠严嚴证證护護条條";

/// Pairs of words with the same meaning.
const SYNONYMS: &str = "解决 处置 投诉 控告 希望 盼望 严重 厉害 多次 屡次 居民 住户 经常 时常 附近 近旁 损坏 破损 已经 早已 立即 马上 检查 查看 \
    告诉 告知 影响 妨碍 公司 企业 孩子 小孩 老人 长者 晚上 夜里 早上 清晨 垃圾 废物 噪音 噪声 道路 马路 汽车 车辆 房屋 房子 小区 园区 电话 手机 \
    学校 校方 物业 管家 修理 维修 污水 脏水 堵塞 堵死 危险 凶险 摔倒 跌跤 受伤 伤着 收费 要钱 拖欠 欠着 拒绝 不肯 取消 撤掉 增加 添加 \
    改道 改线 站点 车站 时间 时候 上班 上工 救援 搭救 被困 困住 联系 联络 物资 东西";

/// Returns a text in which one word is replaced by another with the same meaning, or the unchanged text if it contains none of the words.
fn with_synonym(text: &str, random: &mut XorShift64) -> String {
    let words: Vec<&str> = SYNONYMS.split_whitespace().collect();
    let (pairs, _) = words.as_chunks::<2>();
    let there: Vec<&[&str; 2]> = pairs.iter().filter(|[word, _]| text.contains(word)).collect();
    match there.get(random.below(there.len())) {
        Some([word, other]) => text.replacen(word, other, 1),
        None => text.to_owned(),
    }
}

/// Returns a text in which each character of `forms` is replaced by the one after it.
fn with_other_forms(text: &str, forms: &str) -> String {
    let forms: Vec<char> = forms.chars().collect();
    text.chars().map(|c: char| forms.chunks_exact(2).find(|pair| pair[0] == c).map_or(c, |pair| pair[1])).collect()
}

/// Returns a text with one wrong Han character in each [`TYPO_EVERY`] characters.
fn mistyped(text: &str, random: &mut XorShift64) -> String {
    text.chars()
        .enumerate()
        .map(|(at, c): (usize, char)| match at % TYPO_EVERY == TYPO_EVERY / 2 && is_han(c) {
            true => char::from_u32(0x4E00 + random.below(3_000) as u32).unwrap_or(c),
            false => c,
        })
        .collect()
}

fn is_han(c: char) -> bool {
    ('\u{4E00}'..'\u{9FA5}').contains(&c)
}

/// Returns a text that begins with another of its sentences.
fn reordered(text: &str, random: &mut XorShift64) -> String {
    let mut sentences: Vec<&str> = text.split_inclusive(['。', '!', '?', '！', '？']).collect();
    if sentences.len() > 1 {
        let first = 1 + random.below(sentences.len() - 1);
        sentences.rotate_left(first);
    }
    sentences.concat()
}

/// Returns a text in which half of the single digits are Chinese numerals.
fn with_numerals(text: &str, random: &mut XorShift64) -> String {
    let chars: Vec<char> = text.chars().collect();
    let mut changed = String::with_capacity(text.len());
    for (at, c) in chars.iter().enumerate() {
        let half = random.below(2) == 0;
        changed.push(numeral(&chars, at).filter(|_| half).unwrap_or(*c));
    }
    changed
}

/// Returns the Chinese numeral of the digit at a position; `None` for 0, for a digit next to another, and for other characters.
fn numeral(chars: &[char], at: usize) -> Option<char> {
    let alone = chars[at] != '0' && !is_digit(chars, at + 1) && (at == 0 || !is_digit(chars, at - 1));
    let digit = chars[at].to_digit(10).filter(|_| alone)?;
    "零一二三四五六七八九".chars().nth(digit as usize)
}

fn is_digit(chars: &[char], at: usize) -> bool {
    chars.get(at).is_some_and(char::is_ascii_digit)
}

/// A change after which a record names another object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum HarmfulChange {
    /// Another road, place, water or organisation.
    Name,
    /// Another line, building, house, room, phase or group of villagers.
    Number,
    /// Another licence plate.
    Plate,
    /// Another side: East Road and West Road.
    Side,
    /// Another kind of problem.
    Problem,
}

impl HarmfulChange {
    /// The changes after which the record has the same words but another object.
    pub const OF_OBJECTS: [Self; 3] = [Self::Name, Self::Number, Self::Plate];
    pub const ALL: [Self; 5] = [Self::Name, Self::Number, Self::Plate, Self::Side, Self::Problem];

    /// Returns the name in tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::Name => "another name",
            Self::Number => "another number",
            Self::Plate => "another plate",
            Self::Side => "another side",
            Self::Problem => "another problem",
        }
    }

    /// Returns a row in which another object replaces one of `objects`; `None` if none of them can be replaced.
    pub fn change(self, row: &Row, objects: &[NamedObject], pool: &ObjectPool, random: &mut XorShift64) -> Option<Row> {
        let (from, to) = match self {
            Self::Name => {
                // The first name in a letter is most often its subject.
                let named = objects.iter().find(|object| is_name(object.kind))?;
                (named.name.clone(), pool.other(named, random)?)
            }
            Self::Number => {
                let numbers: Vec<&NamedObject> = objects.iter().filter(|object| is_number(object.kind)).collect();
                let chosen = numbers.get(random.below(numbers.len()))?;
                let digits: String = chosen.name.chars().take_while(char::is_ascii_digit).collect();
                let value: usize = digits.parse().ok()?;
                let other = 1 + (value + 1 + random.below(37)) % 98;
                let rest = &chosen.name[digits.len()..];
                (chosen.name.clone(), (other != value).then(|| format!("{other}{rest}"))?)
            }
            Self::Plate => {
                // Objects are in lower case, plates are written in upper case.
                let plate = objects.iter().find(|object| object.kind == ObjectKind::Plate)?.name.to_uppercase();
                let step = 1 + random.below(8) as u32;
                let other = plate.chars().map(|c| match c.to_digit(10) {
                    Some(digit) => char::from_digit((digit + step) % 10, 10).unwrap_or(c),
                    None => c,
                });
                let other = other.collect();
                (plate, other)
            }
            Self::Side => {
                let (name, at) = objects.iter().filter(|object| is_name(object.kind)).find_map(side_of)?;
                let sides: Vec<char> = SIDES.chars().filter(|side| !name[at..].starts_with(*side)).collect();
                let other = sides[random.below(sides.len())];
                (name.to_owned(), format!("{}{other}{}", &name[..at], &name[at + other.len_utf8()..]))
            }
            Self::Problem => return other_problem(row, random),
        };
        replaced(row, &from, &to)
    }
}

/// The sides of which a name contains one.
const SIDES: &str = "东西南北";

/// Returns a name and the offset of its side, which stands behind two characters: 人民东路.
fn side_of(object: &NamedObject) -> Option<(&str, usize)> {
    let at = object.name.char_indices().skip(2).find(|(_, c)| SIDES.contains(*c))?.0;
    Some((&object.name, at))
}

/// Returns a row in which words of a kind of problem of another topic replace all words of the kind that the row reports most. `None` if the
/// row reports no kind.
fn other_problem(row: &Row, random: &mut XorShift64) -> Option<Row> {
    let kinds = problem_kinds("", row.json());
    let strongest = kinds.iter().max_by(|a, b| a.strength.total_cmp(&b.strength))?.class;
    let topics: Vec<u8> = problem_topics(&kinds).iter().map(|topic| topic.class).collect();
    let others: Vec<u8> = (0..kind_count() as u8)
        .filter(|kind| topics_of_kind(*kind).iter().all(|topic| !topics.contains(topic)))
        .collect();
    if others.is_empty() {
        return None;
    }
    let other: Vec<&str> = words_of_kind(*others.get(random.below(others.len()))?).collect();
    let mut words: Vec<&str> = words_of_kind(strongest).filter(|word| row.json().contains(word)).collect();
    // Of two words, the longer one may contain the shorter one.
    words.sort_by_key(|word| std::cmp::Reverse(word.len()));
    let mut changed = None;
    for word in words {
        let to = other[random.below(other.len())];
        changed = replaced(changed.as_ref().unwrap_or(row), word, to).or(changed);
    }
    changed
}

fn is_name(kind: ObjectKind) -> bool {
    matches!(kind, ObjectKind::Road | ObjectKind::Place | ObjectKind::Water | ObjectKind::Organisation)
}

fn is_number(kind: ObjectKind) -> bool {
    use ObjectKind::{Building, HouseNumber, Line, Phase, Room, Unit, VillageGroup};
    matches!(kind, HouseNumber | Building | Unit | Room | Phase | VillageGroup | Line)
}

/// Returns a row in which all occurrences of a name are replaced; `None` if no member contains the name.
fn replaced(row: &Row, from: &str, to: &str) -> Option<Row> {
    let mut value: Value = serde_json::from_str(row.json()).ok()?;
    let mut is_changed = false;
    for (name, value) in value.as_object_mut()? {
        let Some(text) = value.as_str().filter(|text| name != "id" && text.contains(from)) else { continue };
        *value = text.replace(from, to).into();
        is_changed = true;
    }
    is_changed.then(|| Row::parse(value.to_string().as_bytes()).ok()).flatten()
}

/// The names of a set by kind. They replace other names.
#[derive(Clone, Debug, Default)]
pub struct ObjectPool(BTreeMap<ObjectKind, Vec<String>>);

impl ObjectPool {
    /// Collects the names of some objects.
    pub fn of<'a>(objects: impl Iterator<Item = &'a NamedObject>) -> Self {
        let mut pool = Self::default();
        for object in objects.filter(|object| object.name.chars().count() >= MIN_NAME_CHARS) {
            pool.0.entry(object.kind).or_default().push(object.name.clone());
        }
        pool
    }

    fn other(&self, object: &NamedObject, random: &mut XorShift64) -> Option<String> {
        let names = self.0.get(&object.kind)?;
        let other = &names[random.below(names.len())];
        (!other.contains(&object.name) && !object.name.contains(other.as_str())).then(|| other.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use doppel_core::collection::Settings;
    use doppel_core::schemes::profile::Profile;

    #[test]
    fn removed_changes_do_not_change_the_compared_text() {
        let profile = Profile::compile(&Settings::default(), None);
        let row = Row::parse(
            r#"{"content":"河口新区3号路与兴业街交叉口的污水井盖破损已经半个多月，夜间有老人摔倒受伤，社区和市政都说不归自己管，请尽快更换井盖"}"#
                .as_bytes(),
        )
        .unwrap();
        let before = profile.read(&row).unwrap();
        for kind in HarmlessChange::ALL.into_iter().filter(|kind| kind.is_removed()) {
            for seed in 0..20 {
                let changed = kind.change(&row, &mut XorShift64::new(seed)).unwrap();
                let after = profile.read(&changed).unwrap();
                assert!(profile.are_copies(&before, &after), "{kind:?}: {}", after.joined());
            }
        }
    }

    #[test]
    fn a_harmful_change_names_another_object_everywhere() {
        let profile = Profile::compile(&Settings::default(), None);
        let row = Row::parse(r#"{"title":"鹤鸣小区停水","content":"鹤鸣小区5号楼停水三天"}"#.as_bytes()).unwrap();
        let objects = profile.objects(&profile.read(&row).unwrap().joined());
        let other = profile.objects("梧桐湾花园停水");
        let pool = ObjectPool::of(other.iter());
        let named = HarmfulChange::Name.change(&row, &objects, &pool, &mut XorShift64::new(1)).unwrap();
        assert!(!named.json().contains("鹤鸣") && named.json().matches("梧桐湾花园").count() == 2, "{}", named.json());
        let numbered = HarmfulChange::Number.change(&row, &objects, &pool, &mut XorShift64::new(1)).unwrap();
        assert!(!numbered.json().contains("5号楼") || numbered.json().contains("5号楼停"), "{}", numbered.json());
        let row = Row::parse(r#"{"content":"粤B7K3M9挡住出口"}"#.as_bytes()).unwrap();
        let objects = profile.objects(&profile.read(&row).unwrap().joined());
        let other = HarmfulChange::Plate.change(&row, &objects, &pool, &mut XorShift64::new(1)).unwrap();
        assert!(other.json().contains("粤B") && !other.json().contains("粤B7K3M9"), "{}", other.json());
    }
}
