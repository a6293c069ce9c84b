//! Made-up letters for a collection in which a new visitor can try everything. All names, places and texts are invented.
//!
//! The letters are dated back from the present day, so that the lists of recent matters contain them. Earlier letters have a status, and
//! most of them a reply, as in an office.

use jiff::Timestamp;
use serde_json::json;

use doppel_core::collection::{CollectionName, Settings};
use doppel_core::columns;
use doppel_core::record::Row;

/// The name of the collection with the made-up letters.
pub const NAME: &str = "demo";
/// Days after which a matter is closed.
const CLOSED_AFTER: i64 = 10;

/// A matter about which one or more people wrote.
struct DemoMatter {
    title: &'static str,
    text: &'static str,
    /// The same matter in the words of another person; empty if nobody wrote again.
    reworded: &'static str,
    category: &'static str,
    unit: &'static str,
    reply: &'static str,
    letters: &'static [DemoLetter],
}

/// A letter about a matter.
struct DemoLetter {
    days_ago: i64,
    petitioner: &'static str,
    wording: DemoWording,
}

/// The way in which a letter repeats the text of its matter.
#[derive(Clone, Copy)]
enum DemoWording {
    /// The text of the matter.
    Whole,
    /// The text of the matter, with a beginning and an end that mention an earlier letter.
    Again,
    /// The matter in other words.
    Reworded,
}

use DemoWording::{Again, Reworded, Whole};

const fn letter(days_ago: i64, petitioner: &'static str, wording: DemoWording) -> DemoLetter {
    DemoLetter { days_ago, petitioner, wording }
}

/// The matters about which several letters were written.
const MATTERS: [DemoMatter; 6] = [
    DemoMatter {
        title: "梅林路路灯不亮",
        text: "我住在清河区梅林路安和里小区。从月初起，梅林路从石桥到菜市场的十几盏路灯全部不亮，晚上只能用手机照明，前天有位老人在路口绊倒，手腕骨折。\
               我们打过两次电话报修，答复说已经登记，但一直没有人来修。",
        reworded: "清河区梅林路石桥至菜市场一段十几盏路灯全都不亮，已经快半个月了。夜里看不清路面，安和里有位老人在路口绊倒，手腕骨折。居民两次打电话报修，至今没有人来修，\
                   请问归哪个部门管？",
        category: "市政设施",
        unit: "清河区城管局",
        reply: "经现场查看，梅林路石桥至菜市场段电缆被施工挖断，已更换电缆并恢复照明。",
        letters: &[
            letter(16, "周兰", Whole),
            letter(9, "钱大江", Reworded),
            letter(5, "周兰", Again),
            letter(1, "孙小雨", Whole),
            letter(0, "孙小雨", Whole),
        ],
    },
    DemoMatter {
        title: "柳湾小区自来水发黄",
        text: "青石街道柳湾小区五号楼的二次供水水箱半年没有清洗，最近放出来的自来水发黄，有一股铁锈味，烧开以后壶底有沉淀。物业说要等水务公司，\
               水务公司说属于小区内部设施，两家推来推去，二十多户人家只能买桶装水做饭。",
        reworded: "柳湾小区五号楼二次供水水箱半年没有清洗，放出来的自来水发黄，有铁锈味，壶底有沉淀。物业说要等水务公司，水务公司说属于小区内部设施，互相推诿。\
                   我家孩子已经拉肚子两天，请尽快派人来查看。",
        category: "供水供气",
        unit: "清河区水务局",
        reply: "已责成物业公司清洗水箱并换装滤网，水质复检合格，检测报告已在小区公示。",
        letters: &[
            letter(20, "吴石", Whole),
            letter(6, "郑秋", Reworded),
            letter(2, "吴石", Again),
            letter(1, "冯远", Reworded),
            letter(0, "陈立", Reworded),
        ],
    },
    DemoMatter {
        title: "望江饭店油烟噪声扰民",
        text: "东门外的望江饭店把油烟机和空调外机装在居民楼一侧，每天营业到凌晨一点，噪声大，油烟直接往二楼窗户里灌。我家老人有心脏病，整夜睡不着。\
               已经和店主谈过三次，对方说手续齐全不肯改。",
        reworded: "",
        category: "环境保护",
        unit: "清河区生态环境局",
        reply: "经检测噪声超标，已责令望江饭店限期加装隔声罩和油烟净化设备。",
        letters: &[letter(14, "沈梅", Whole), letter(4, "沈梅", Again)],
    },
    DemoMatter {
        title: "白云岭隧道拖欠工资",
        text: "我们十二个人去年九月到十二月在白云岭隧道工地做支护，包工头赵某拖欠四个月工资共计十七万元，一直说总包没有结账。总包单位说钱早就付了。\
               我们手里有考勤表和聊天记录，请帮我们要回血汗钱。",
        reworded: "",
        category: "劳动保障",
        unit: "清河区人社局",
        reply: "已约谈总包单位，首批九万元工资已发放，其余款项承诺月底前结清。",
        letters: &[
            letter(25, "罗平", Whole),
            letter(24, "何强", Whole),
            letter(24, "唐勇", Whole),
            letter(3, "罗平", Again),
        ],
    },
    DemoMatter {
        title: "十七路公交车改线",
        text: "十七路公交车从上个月起改走滨河大道，不再经过第三中学门口。学生放学要走二十分钟才能到最近的站，雨天很不方便。希望恢复原来的线路，\
               或者在早晚高峰加开几班。",
        reworded: "",
        category: "交通运输",
        unit: "市交通运输局",
        reply: "原线路因道路施工临时调整，早晚高峰已加开四班区间车，施工结束后恢复。",
        letters: &[letter(18, "许静", Whole), letter(7, "韩雪", Whole), letter(0, "曹敏", Again)],
    },
    DemoMatter {
        title: "锦绣园学区划分",
        text: "新建的锦绣园一共六百多户，今年九月有四十多个孩子要入学，可是小区没有划进任何一所小学的招生范围。教育局说还在研究，学校说没有收到通知。\
               请在报名以前把学区定下来。",
        reworded: "",
        category: "教育",
        unit: "清河区教育局",
        reply: "锦绣园已划入实验小学东校区招生范围，公告已在学校门口张贴。",
        letters: &[letter(12, "邓洁", Whole), letter(11, "彭飞", Whole), letter(2, "邓洁", Again)],
    },
];

/// The matters with one letter each: how many days ago it was written, title, text, category, unit and petitioner.
const SINGLE: &str = "\
8|垃圾清运|北苑小区西门的垃圾房三天没有清运，气味很大，苍蝇到处飞，物业电话一直没有人接。|环境卫生|清河区环卫处|曾燕
8|井盖破损|文昌巷口有一个雨水井盖裂开了一半，电动车经过时很危险，昨天已经有人摔倒。|市政设施|清河区城管局|萧云
7|医保报销|我母亲在外地住院的费用，回来以后报销的材料退了两次，窗口说不清楚缺什么。|医疗保障|清河区医保局|田野
6|违章搭建|六楼住户在楼顶搭了彩钢房，下雨时水全流到我家阳台，和他说过几次都不肯拆。|城乡建设|清河区城管局|董芳
6|暖气不热|供暖一个月了，家里只有十四度，老人天天盖着被子坐着，打电话总说正在调试。|供热|清河区住建局|袁朗
5|农田灌溉|上游修路把水渠挖断了，下游三百亩稻田没有水插秧，村里找过施工队两次。|农业农村|清河区水务局|于田
4|电动车充电|车棚只有四个充电口，大家从窗户拉线下来充电，一楼的住户担心起火。|消防安全|清河区消防大队|蒋欣
3|停车收费|人民医院对面的路边车位一夜之间开始收费，没有任何公示，也没有人给发票。|物价|清河区市场监管局|蔡明
3|河道污染|石桥下面的小河这几天变成乳白色，岸边有死鱼，上游是一家石材厂。|环境保护|清河区生态环境局|贾宁
2|养老金|退休手续办了五个月，养老金还没有发，窗口说系统没有同步，让我再等等。|社会保险|清河区人社局|丁兰
1|电梯故障|和平里三号楼的电梯坏了两个星期，十八层有一位坐轮椅的病人下不了楼。|物业管理|清河区住建局|魏来
0|流浪狗|幼儿园附近有七八条流浪狗，昨天追着孩子跑，家长都很害怕，请派人处理。|治安|清河区公安分局|谢雨";

/// The names of the members of a letter.
const MEMBERS: [&str; 9] = ["id", "title", "content", "user", "time", "诉求类别", "承办单位", "办理状态", "答复内容"];

/// Returns the settings of the collection.
pub fn settings() -> Settings {
    columns::settings_for(MEMBERS)
}

/// Returns the letters, the earliest first, dated back from `now`.
///
/// # Errors
/// The reason if a letter is not a valid row, which is a bug.
pub fn letters(now: Timestamp) -> Result<Vec<Row>, String> {
    let mut letters: Vec<(i64, serde_json::Value)> = Vec::new();
    for matter in &MATTERS {
        for letter in matter.letters {
            let content = match letter.wording {
                Whole => matter.text.to_owned(),
                Again => format!("再次反映：{}上次来信以后没有任何变化，请尽快处理。", matter.text),
                Reworded => matter.reworded.to_owned(),
            };
            let is_closed = letter.days_ago >= CLOSED_AFTER;
            let mut row = json!({
                "title": matter.title,
                "content": content,
                "user": letter.petitioner,
                "诉求类别": matter.category,
                "承办单位": matter.unit,
                "办理状态": if is_closed { "已办结" } else { "办理中" },
            });
            if is_closed {
                row["答复内容"] = matter.reply.into();
            }
            letters.push((letter.days_ago, row));
        }
    }
    for line in SINGLE.lines() {
        let [days_ago, title, content, category, unit, user] = single_letter(line)?;
        let row = json!({
            "title": title,
            "content": content,
            "user": user,
            "诉求类别": category,
            "承办单位": unit,
            "办理状态": "已受理",
        });
        letters.push((days_ago.parse().map_err(|_| line.to_owned())?, row));
    }
    // The sort is stable, so that the letters of a day keep their order.
    letters.sort_by_key(|(days_ago, _)| std::cmp::Reverse(*days_ago));
    let mut rows = Vec::with_capacity(letters.len());
    for (number, (days_ago, mut letter)) in (1..).zip(letters) {
        let time = now.saturating_sub(jiff::SignedDuration::from_hours(24 * days_ago)).unwrap_or(now);
        letter["id"] = format!("DEMO-{number:03}").into();
        letter["time"] = time.to_string().into();
        rows.push(Row::parse(letter.to_string().as_bytes()).map_err(|error| format!("{error:?}"))?);
    }
    Ok(rows)
}

/// Returns the parts of a line of [`SINGLE`].
fn single_letter(line: &str) -> Result<[&str; 6], String> {
    line.split('|').collect::<Vec<_>>().try_into().map_err(|_| line.to_owned())
}

/// Returns the name of the collection.
///
/// # Errors
/// The reason if the name is not valid, which is a bug.
pub fn collection() -> Result<CollectionName, String> {
    CollectionName::new(NAME)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_letters_are_valid_and_dated_back_from_now() {
        let now: Timestamp = "2024-03-20T02:00:00Z".parse().unwrap();
        let letters = letters(now).unwrap();
        assert_eq!(
            letters.len(),
            MATTERS.iter().map(|matter| matter.letters.len()).sum::<usize>() + SINGLE.lines().count()
        );
        assert_eq!(letters[0].id().map(ToString::to_string).as_deref(), Some("DEMO-001"));
        let times: Vec<String> = letters
            .iter()
            .map(|row| serde_json::from_str::<serde_json::Value>(row.json()).unwrap()["time"].to_string())
            .collect();
        assert!(times.is_sorted() && times.last().is_some_and(|last| last.contains("2024-03-20")), "{times:?}");
        assert!(collection().is_ok() && settings().validate().is_empty());
    }

    #[test]
    fn a_matter_that_is_reworded_has_the_other_words() {
        for matter in &MATTERS {
            let is_reworded = matter.letters.iter().any(|letter| matches!(letter.wording, Reworded));
            assert_eq!(is_reworded, !matter.reworded.is_empty(), "{}", matter.title);
        }
    }
}
