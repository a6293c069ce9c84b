//! Generated notices of an agricultural market that is crawled repeatedly: the seller or buyer, the goods, the place and the price.
//!
//! They serve to measure programs that clean such crawls. Like the petitions, each notice is a pure function of (count, seed, position). No
//! notice contains data of a real person: the goods are ordinary goods, everything else is invented, and no telephone has such a number.
//!
//! About 60 % of all notices repeat another notice: most of them word for word, some with other punctuation or spaces, some with added
//! words and changed figures, a few under another title. Sometimes a seller uses an earlier title for another matter.

use serde::Serialize;

use super::grammar::person;
use super::permute::IndexPermutation;
use super::rng::RandomStream;
use super::words::{DISTRICTS, FIRSTS, STEMS};

/// Number of notices in a cell. No matter extends over two cells.
const CELL: u64 = 64;
/// Sizes of a matter, all equally likely: 2.5 on average, so that 60 % of the notices repeat another notice.
const SIZES: [u64; 10] = [1, 1, 1, 1, 2, 2, 3, 3, 4, 7];
/// Percentage of matters that use the title, name and number of the previous matter.
const SAME_TITLE: usize = 6;

/// A generated notice.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SampleNotice {
    /// The id: `n` and the position, from 1.
    pub id: String,
    pub title: String,
    /// The name of the contact person.
    pub contact: String,
    /// The telephone number of the contact person.
    pub phone: String,
    pub content: String,
    /// The time when the notice was crawled: `YYYY-MM-DD HH:MM:SS`.
    pub reg_time: String,
}

/// The difference between a repeated notice and the first notice of its matter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoticeRepeat {
    /// Only the time differs.
    Exact,
    /// Punctuation and spaces differ.
    Marks,
    /// Words and figures of the text differ.
    Words,
    /// The title differs.
    Title,
}

#[derive(Clone, Copy, Debug)]
pub struct CrawlNotices {
    count: u64,
    seed: u64,
    permutation: IndexPermutation,
}

/// A matter, whose notices are neighbours in their cell.
#[derive(Clone, Copy, Debug)]
struct NoticeMatter {
    first: u64,
    /// The matter that gives the title, the name and the number.
    head: u64,
}

impl CrawlNotices {
    /// Creates the `count` notices for `seed`.
    pub fn new(count: u64, seed: u64) -> Self {
        Self { count, seed, permutation: IndexPermutation::new(count.max(1), seed) }
    }

    pub fn count(&self) -> u64 {
        self.count
    }

    /// Returns the matter of the notice at `position`. Two notices have the same number exactly if they concern the same matter.
    pub fn matter(&self, position: u64) -> u64 {
        self.matter_of(self.permutation.forward(position)).first
    }

    /// Returns the difference between the notice at `position` and the first notice of its matter; `None` for the first notice.
    pub fn repeat(&self, position: u64) -> Option<NoticeRepeat> {
        let item = self.permutation.forward(position);
        (item != self.matter_of(item).first).then(|| self.repeat_of(item))
    }

    /// Returns the notice at `position`, counted from 0.
    pub fn notice(&self, position: u64) -> SampleNotice {
        let item = self.permutation.forward(position);
        let NoticeMatter { first, head } = self.matter_of(item);
        let (mut title, contact, phone) = self.head(head);
        let mut content = self.content(first);
        if item != first {
            let mut rng = RandomStream::of(&[self.seed, item, 45]);
            match self.repeat_of(item) {
                NoticeRepeat::Exact => {}
                NoticeRepeat::Marks => content = marks(&content, &mut rng),
                NoticeRepeat::Words => content = words(&content, &mut rng),
                NoticeRepeat::Title => title = format!("{}{title}", rng.pick(&["急！", "再发：", "【推荐】", "长期"])),
            }
        }
        SampleNotice {
            id: format!("n{:08}", position + 1),
            title,
            contact,
            phone,
            content,
            reg_time: self.time(position),
        }
    }

    fn matter_of(&self, item: u64) -> NoticeMatter {
        let mut first = item / CELL * CELL;
        let end = ((item / CELL + 1) * CELL).min(self.count);
        let mut rng = RandomStream::of(&[self.seed, item / CELL, 40]);
        let mut head = first;
        loop {
            let size = SIZES[rng.below(SIZES.len())].min(end - first).max(1);
            if !rng.chance(SAME_TITLE) {
                head = first;
            }
            if item < first + size {
                return NoticeMatter { first, head };
            }
            first += size;
        }
    }

    fn repeat_of(&self, item: u64) -> NoticeRepeat {
        match RandomStream::of(&[self.seed, item, 41]).below(100) {
            0..84 => NoticeRepeat::Exact,
            84..89 => NoticeRepeat::Marks,
            89..96 => NoticeRepeat::Words,
            _ => NoticeRepeat::Title,
        }
    }

    /// Returns the title, the name and the number.
    fn head(&self, matter: u64) -> (String, String, String) {
        let mut rng = RandomStream::of(&[self.seed, matter, 42]);
        let place = format!("{}{}", rng.pick(DISTRICTS), rng.pick(STEMS));
        let act = rng.pick(&["供应", "求购", "批发", "大量供应", "常年收购", "出售"]);
        let goods = rng.pick(GOODS);
        let title = format!("{place}{act}{goods}");
        let mut contact = String::new();
        person(&mut rng, &mut contact);
        (title, contact, format!("000-{:08}", rng.below(100_000_000)))
    }

    fn content(&self, matter: u64) -> String {
        let mut rng = RandomStream::of(&[self.seed, matter, 43]);
        let goods = rng.pick(GOODS);
        let base = format!(
            "{}{}{}",
            rng.pick(DISTRICTS),
            rng.pick(STEMS),
            rng.pick(&["基地", "合作社", "农场", "市场", "果园", "种植园"])
        );
        let mut text =
            format!("{base}现有{goods}{}{}，", rng.between(2, 900), rng.pick(&["吨", "亩", "箱", "头", "车", "公斤"]));
        text.push_str(&format!("价格{}.{}元，", rng.between(0, 40), rng.below(10)));
        let mut phrases: Vec<&str> = PHRASES.to_vec();
        rng.shuffle(&mut phrases);
        for phrase in phrases.into_iter().take(2 + rng.below(6)) {
            text.push_str(phrase);
            text.push_str(rng.pick(&["，", "，", "。"]));
        }
        text.push_str(&format!(
            "{}{}。",
            rng.pick(FIRSTS),
            rng.pick(&["农产品经营部", "果蔬商行", "种养场", "粮油贸易行", "苗木中心"])
        ));
        text
    }

    /// Returns the time of a notice. Times ascend with the position and lie within one month.
    fn time(&self, position: u64) -> String {
        const MONTH: u64 = 30 * 86_400;
        let seconds = (u128::from(position) * u128::from(MONTH) / u128::from(self.count.max(1))) as i64;
        let start = jiff::civil::date(2008, 3, 1).at(0, 0, 0, 0);
        start.saturating_add(jiff::SignedDuration::from_secs(seconds)).strftime("%Y-%m-%d %H:%M:%S").to_string()
    }
}

fn marks(text: &str, rng: &mut RandomStream) -> String {
    let changed = text.replacen('，', rng.pick(&["；", " ", "、", "!"]), 1 + rng.below(3));
    changed.replace('。', rng.pick(&["。 ", "！", "。"])) + rng.pick(&["！", "~", "…"])
}

fn words(text: &str, rng: &mut RandomStream) -> String {
    let text = text.replace("价格", rng.pick(&["现价", "单价", "出厂价"]));
    let added = rng.pick(&["欢迎选购", "量大从优", "先到先得", "本周有效", "可看样品"]);
    format!("{text}{added}，余{}。", rng.between(2, 400))
}

const GOODS: &[&str] = &[
    "白菜",
    "萝卜",
    "土豆",
    "大蒜",
    "生姜",
    "洋葱",
    "黄瓜",
    "番茄",
    "茄子",
    "辣椒",
    "南瓜",
    "冬瓜",
    "莲藕",
    "芹菜",
    "菠菜",
    "苹果",
    "梨",
    "桃",
    "葡萄",
    "柑橘",
    "脐橙",
    "西瓜",
    "草莓",
    "板栗",
    "核桃",
    "红枣",
    "猕猴桃",
    "小麦",
    "玉米",
    "大豆",
    "花生",
    "油菜籽",
    "芝麻",
    "绿豆",
    "红薯",
    "生猪",
    "仔猪",
    "肉牛",
    "山羊",
    "肉鸡",
    "鸡蛋",
    "鸭苗",
    "草鱼",
    "鲫鱼",
    "泥鳅",
    "茶叶",
    "蘑菇",
    "木耳",
    "桂花树",
    "香樟苗",
    "草皮",
    "蜂蜜",
    "棉花",
    "中药材",
    "豆粕",
    "麸皮",
];

const PHRASES: &[&str] = &[
    "品质优良",
    "货源充足",
    "产地直供",
    "可送货上门",
    "长期合作",
    "色泽鲜亮",
    "个头均匀",
    "无公害种植",
    "随到随装",
    "交通便利",
    "可代办运输",
    "诚信经营",
    "价格面议可谈",
    "包装整齐",
    "口感脆甜",
    "已通过检疫",
    "支持实地考察",
    "存放于冷库",
    "本地自产",
    "成活率高",
    "技术员跟踪服务",
    "每日现采",
    "含水量低",
    "淀粉含量高",
    "年出栏量大",
    "适合加工",
    "可开具证明",
    "全程冷链",
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn three_in_five_notices_repeat_another_mostly_to_the_letter() {
        let notices = CrawlNotices::new(20_000, 5);
        let repeats: Vec<NoticeRepeat> = (0..20_000).filter_map(|position| notices.repeat(position)).collect();
        let exact = repeats.iter().filter(|repeat| **repeat == NoticeRepeat::Exact).count();
        assert!((11_400..12_600).contains(&repeats.len()), "{}", repeats.len());
        assert!((0.80..0.88).contains(&(exact as f64 / repeats.len() as f64)), "{exact}");
    }

    #[test]
    fn repeated_notices_differ_in_the_stated_way() {
        let notices = CrawlNotices::new(3_000, 7);
        let mut matters: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
        (0..3_000).for_each(|position| matters.entry(notices.matter(position)).or_default().push(position));
        for members in matters.values() {
            let firsts: Vec<_> = members.iter().filter(|position| notices.repeat(**position).is_none()).collect();
            let [first] = firsts[..] else { panic!("a matter has one first: {members:?}") };
            let first = notices.notice(*first);
            for position in members {
                let other = notices.notice(*position);
                let title = other.title == first.title;
                let content = other.content == first.content;
                let expected = match notices.repeat(*position) {
                    None | Some(NoticeRepeat::Exact) => (true, true),
                    Some(NoticeRepeat::Marks | NoticeRepeat::Words) => (true, false),
                    Some(NoticeRepeat::Title) => (false, true),
                };
                assert_eq!((title, content), expected, "{other:?}");
                assert!(other.contact == first.contact && other.phone == first.phone);
            }
        }
    }

    fn notices_of(seed: u64) -> Vec<SampleNotice> {
        (0..500).map(|position| CrawlNotices::new(500, seed).notice(position)).collect()
    }

    #[test]
    fn the_same_seed_gives_the_same_notices_and_times_ascend() {
        let notices = notices_of(1);
        assert_eq!(notices, notices_of(1));
        assert_ne!(notices[3].content, notices_of(2)[3].content);
        assert!(notices.is_sorted_by_key(|notice| notice.reg_time.clone()));
    }
}
