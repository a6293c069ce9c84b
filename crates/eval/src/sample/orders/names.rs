//! The names in the slots of forms: places, numbers, persons and companies. They are composed of parts, so that most names are distinct;
//! some names are common to many matters. All names are invented: no licence plate has the letter I, and any other similarity to something
//! real is a coincidence.

use super::super::rng::RandomStream;
use super::super::words::{CITY, DISTRICTS, FORENAMES, SURNAMES};

/// First characters of the names of places, estates and companies.
const HEADS: &str = "松柏枫桂兰梅竹荷柳桃杏槐榆樟杉枣橘茶稻麦禾谷泉溪涧潭湖塘洲渡津浦澜汀岭峰岩崖坪坡岗峪峡谭云霞虹露霜雪晴岚\
     曙晨暮春夏秋冬东西南北上下前后新古长远高平安宁康永昌盛兴隆福禄祥瑞和顺仁义礼信德善文武明光辉耀金银铜铁石玉珠翠\
     青白红黄丹紫碧鹤鹿燕雁凤鸾麟骏鲤鹭龙虎牛羊马";

/// Second characters of these names.
const TAILS: &str = "山川水木林园田地桥井门庙塔亭台阁楼院巷口头尾湾垅冲坳背坝堤圩滩沙泥塍墩堡寨屯营集店铺坊窑炉磨碾仓场坑洞\
     沟港汊泊岸沿涯角嘴咀岔垭畈坂埂垸屿丘陵阜原野甸坨堰闸渠窝墙基界碑柱梁檐阶径途程关隘卡站驿所舍庐斋轩榭苑圃畦棚";

/// A name in its full form in one order, and the short form that other orders use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct OrderName {
    pub(super) full: String,
    pub(super) short: String,
}

/// The kind of the name in a slot. If the names of two orders differ, the orders concern different matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NameSlot {
    District,
    Road,
    Village,
    Town,
    Estate,
    Building,
    School,
    Company,
    Reach,
    Stop,
    Line,
    Plate,
    Order,
    /// Number of the earlier order that this order asks about. It changes if any other name changes.
    Chased,
    Extension,
    Person,
    /// One of the form's questions.
    Question,
}

impl NameSlot {
    /// All slots, with their names in templates.
    const NAMED: [(&'static str, Self); 17] = [
        ("区", Self::District),
        ("路", Self::Road),
        ("村", Self::Village),
        ("街道", Self::Town),
        ("小区", Self::Estate),
        ("栋", Self::Building),
        ("学校", Self::School),
        ("公司", Self::Company),
        ("河段", Self::Reach),
        ("站", Self::Stop),
        ("线路", Self::Line),
        ("车牌", Self::Plate),
        ("单号", Self::Order),
        ("工单", Self::Chased),
        ("分机", Self::Extension),
        ("人", Self::Person),
        ("问", Self::Question),
    ];

    /// Returns the slot with the name `name` in templates.
    pub(super) fn named(name: &str) -> Option<Self> {
        Self::NAMED.iter().find(|(own, _)| *own == name).map(|(_, slot)| *slot)
    }

    /// Returns the name in `pairs.jsonl` of a difference in this slot.
    pub(super) fn sign(self) -> &'static str {
        match self {
            Self::Line | Self::Plate | Self::Order | Self::Chased | Self::Extension => "number",
            Self::Person => "person",
            Self::Company => "company",
            Self::Question => "question",
            _ => "place",
        }
    }

    /// True if two matters on one form hardly ever have the same name in this slot by chance.
    pub(super) fn tells(self) -> bool {
        !matches!(self, Self::District | Self::Question | Self::Chased)
    }

    /// Returns the name for `seed`. If `popular` is true, it is sometimes a name that many matters have in common. `trades` are the trades
    /// of companies. [`NameSlot::Question`] is empty here, because the form has the questions.
    pub(super) fn fill(self, seed: u64, popular: bool, trades: &[&'static str]) -> OrderName {
        let mut rng = RandomStream::of(&[seed, 50]);
        if popular && self.may_be_popular() && rng.chance(POPULAR_PERCENT) {
            let few = rng.below(POPULAR) + 1;
            rng = RandomStream::of(&[rng.below(few) as u64, 51]);
        }
        let rng = &mut rng;
        match self {
            Self::District => district(rng),
            Self::Road => {
                let road = joined(rng, &["路", "街", "大道", "巷", "东路", "西路", "南街", "北街", "支路", "环路"]);
                plain(format!("{road}{}号", rng.between(1, 599)))
            }
            Self::Village => {
                let town = joined(rng, &["镇", "乡"]);
                let village = joined(rng, &["村", "湾村", "垅村", "桥村", "庄村", "社区"]);
                OrderName { full: format!("{town}{village}"), short: village }
            }
            Self::Town => plain(joined(rng, &["街道", "镇", "乡", "路街道"])),
            Self::Estate => estate(rng),
            Self::Building => building(rng),
            Self::School => school(rng),
            Self::Company => company(rng, trades),
            Self::Reach => {
                let river = joined(rng, &["河", "溪", "港", "渠", "江"]);
                let [from, to] = [joined(rng, &["桥", "闸", "渡口"]), joined(rng, &["桥", "闸", "泵站"])];
                OrderName { full: format!("{river}（{from}至{to}段）"), short: format!("{river}{from}到{to}") }
            }
            Self::Stop => plain(joined(rng, &["路口", "桥东", "村口", "新村", "市场", "公园"])),
            Self::Line => {
                let number = rng.between(1, 499);
                let line = rng.pick(&["", "", "", "支线", "区间", "夜班"]);
                OrderName { full: format!("{number}路{line}公交车"), short: format!("{number}路{line}公交") }
            }
            Self::Plate => plate(rng),
            Self::Order | Self::Chased => plain(format!("{}{:08}", rng.between(11, 99), rng.below(100_000_000))),
            Self::Extension => plain(rng.between(1000, 9999).to_string()),
            Self::Person => {
                let surname = rng.pick(SURNAMES);
                let full = format!("{surname}{}{}", rng.pick(FORENAMES[0]), rng.pick(FORENAMES[1]));
                OrderName { full, short: format!("{surname}某") }
            }
            Self::Question => plain(String::new()),
        }
    }

    /// True if many matters have some names of this slot in common.
    fn may_be_popular(self) -> bool {
        matches!(
            self,
            Self::Village | Self::Town | Self::Estate | Self::School | Self::Company | Self::Reach | Self::Stop
        )
    }
}

/// Percentage of names that are popular, and number of popular names of a slot. The first names are the most popular.
const POPULAR_PERCENT: usize = 15;
const POPULAR: usize = 60;

/// Returns a name without a short form.
pub(super) fn plain(full: String) -> OrderName {
    OrderName { short: full.clone(), full }
}

/// Returns two characters; there are some 14,000 combinations.
pub(in super::super) fn stem(rng: &mut RandomStream) -> String {
    static CHARACTERS: std::sync::LazyLock<[Vec<char>; 2]> =
        std::sync::LazyLock::new(|| [HEADS, TAILS].map(|characters| characters.chars().collect()));
    CHARACTERS.each_ref().map(|characters| characters[rng.below(characters.len())]).into_iter().collect()
}

fn joined(rng: &mut RandomStream, lasts: &[&str]) -> String {
    stem(rng) + rng.pick(lasts)
}

/// Returns a district. Some offices also write the city.
fn district(rng: &mut RandomStream) -> OrderName {
    let short = rng.pick(DISTRICTS).to_owned();
    let city = if rng.chance(15) { CITY } else { "" };
    OrderName { full: format!("{city}{short}"), short }
}

fn estate(rng: &mut RandomStream) -> OrderName {
    let first = stem(rng);
    let second = rng.pick(&["锦", "翠", "阳光", "香", "湖", "滨江", "府", "星", "悦", "水岸", "学府", "都会"]);
    let short = first + second + rng.pick(&["苑", "园", "城", "湾", "庭", "邸", "轩", "居", "里", "郡"]);
    OrderName { full: format!("{short}小区"), short }
}

fn building(rng: &mut RandomStream) -> OrderName {
    let building = rng.between(1, 60);
    let unit = rng.between(1, 4);
    OrderName { full: format!("{building}号楼{unit}单元"), short: format!("{building}栋{unit}单元") }
}

fn school(rng: &mut RandomStream) -> OrderName {
    let stem = stem(rng);
    let (full, short) = [
        ("第一小学", "一小"),
        ("第二小学", "二小"),
        ("第三小学", "三小"),
        ("第一中学", "一中"),
        ("第二中学", "二中"),
        ("实验小学", "实小"),
        ("中心小学", "中心小学"),
        ("第三中学", "三中"),
        ("外国语学校", "外校"),
    ][rng.below(9)];
    OrderName { full: format!("{stem}{full}"), short: format!("{stem}{short}") }
}

fn company(rng: &mut RandomStream, trades: &[&'static str]) -> OrderName {
    let short = joined(rng, trades);
    let last = rng.pick(&["有限公司", "有限责任公司", "服务有限公司", "管理有限公司"]);
    OrderName { full: format!("{short}{last}"), short }
}

/// Returns a licence plate that no car has, because the letter I is not used.
fn plate(rng: &mut RandomStream) -> OrderName {
    let province = rng.pick(&["云", "川", "湘", "鄂", "赣", "皖", "浙", "闽", "桂", "黔"]);
    let letters = ["A", "B", "C", "D", "E", "F", "G", "H", "J", "K", "L", "M", "N", "P", "Q", "R", "S", "T"];
    let body: String = (0..5)
        .map(|_| if rng.chance(30) { rng.pick(&letters).to_owned() } else { rng.below(10).to_string() })
        .collect();
    OrderName { full: format!("{province}I·{body}"), short: format!("{province}I{body}") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn most_names_are_distinct_and_some_are_shared_by_many() {
        for slot in [NameSlot::Village, NameSlot::Estate, NameSlot::School, NameSlot::Company] {
            let names: Vec<_> = (0..2_000).map(|seed| slot.fill(seed, true, &["商贸"]).full).collect();
            let distinct: BTreeSet<_> = names.iter().collect();
            let most = distinct.iter().map(|name| names.iter().filter(|other| other == name).count()).max();
            assert!(distinct.len() > 1_650 && most > Some(5), "{slot:?}: {} distinct, {most:?}", distinct.len());
        }
        let plates: BTreeSet<_> = (0..2_000).map(|seed| NameSlot::Plate.fill(seed, true, &["商贸"]).full).collect();
        assert!(plates.len() > 1_990 && plates.iter().all(|plate| plate.contains("I·")));
    }

    fn digits(text: &str) -> String {
        text.chars().filter(char::is_ascii_digit).collect()
    }

    #[test]
    fn a_short_name_is_no_longer_and_keeps_its_number() {
        for (name, slot) in NameSlot::NAMED {
            for seed in 0..100 {
                let OrderName { full, short } = slot.fill(seed, seed % 2 == 0, &["商贸"]);
                assert!(short.chars().count() <= full.chars().count(), "{name}: {full} {short}");
                assert_eq!(digits(&full), digits(&short), "{name}");
            }
        }
    }

    #[test]
    fn no_character_is_listed_twice() {
        for list in [HEADS, TAILS] {
            let distinct: BTreeSet<_> = list.chars().collect();
            assert_eq!(distinct.len(), list.chars().count(), "{list}");
        }
    }
}
