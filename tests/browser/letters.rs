//! A collection like the collection of an office. Its letters are invented for these tests, and some of them repeat each other.

use std::time::{Duration, Instant};

use crate::support::keyed::KeyedServer;
use serde_json::{Value, json};

/// The name of the collection in the tests.
pub(crate) const COLLECTION: &str = "letters";
/// Every page of the collection: the name of its picture, and its address. A new page of the desk needs one line here; the tests then read
/// it in both languages and at all sizes, and move through it with the keyboard.
pub(crate) const PAGES: [(&str, &str); 17] = [
    ("inbox", "inbox"),
    ("inbox-filtered", "inbox?show=all&order=uncertain&band=low"),
    ("batch", "batch?kind=above-80"),
    ("check", "check"),
    ("files", "files"),
    ("search", "search"),
    ("case", "case/2024-03-109"),
    ("groups", "groups"),
    ("group", "groups/2024-03-109"),
    ("events", "events"),
    ("event", "events/2024-03-109"),
    ("statistics", "statistics?from=2024-03-01&to=2024-03-31"),
    ("report", "report?period=month&date=2024-03-01"),
    ("work", "work"),
    ("quality", "quality"),
    ("what-if", "quality?duplicate=0.9"),
    ("error-record", "case/nobody"),
];
/// A word in every letter, so that one search finds more letters than fit on a page.
pub(crate) const EVERYWHERE: &str = "盼复";

const LAMPS: &str = "您好，我住在河口新区三号路南段的安和里。从三月初起，三号路从桥头到菜市场的十几盏路灯全部不亮，晚上走路只能\
                     用手机照明。上周三有位老人在路口绊倒，手腕骨折。我们打过两次电话报修，答复说已经登记，但一直没有人来修。";
const LAMPS_AGAIN: &str = "我是河口新区安和里的住户。三号路从桥头到菜市场的十几盏路灯全部不亮，晚上走路只能用手机照明，上周三有位老人在路口\
                           绊倒，手腕骨折。我们打过两次电话报修，答复说已经登记，但一直没有人来修。请问到底归哪个部门管？";
const WATER: &str = "青石街道柳湾小区五号楼的二次供水水箱半年没有清洗，最近放出来的自来水发黄，有一股铁锈味，烧开以后壶底有沉淀。\
                     物业说要等水务公司，水务公司说属于小区内部设施，两家推来推去，二十多户人家现在只能买桶装水做饭。";
const WATER_AGAIN: &str = "柳湾小区五号楼二次供水水箱半年没有清洗，最近放出来的自来水发黄，有一股铁锈味，烧开以后壶底有沉淀。物业说要等水务\
                           公司，水务公司说属于小区内部设施，两家推来推去。孩子已经拉肚子两天，请尽快派人来看看。";
const NOISE: &str = "东门外的望江饭店把油烟机和空调外机装在居民楼一侧，每天营业到凌晨一点，噪声大，油烟直接往二楼窗户里灌。\
                     我家老人有心脏病，整夜睡不着。已经和店主谈过三次，对方说手续齐全不肯改。";
const NOISE_AGAIN: &str = "再次反映：东门外的望江饭店把油烟机和空调外机装在居民楼一侧，每天营业到凌晨一点，噪声大，油烟直接往二楼窗户里灌。我家老人\
                           有心脏病，整夜睡不着。上次来信以后没有任何变化。";
const WAGES: &str = "我们十二个人去年九月到十二月在白云岭隧道工地做支护，包工头赵某拖欠四个月工资共计十七万元，一直说总包没有\
                     结账。总包单位说钱早就付了。我们手里有考勤表和微信记录，请帮我们要回血汗钱。";
const BUS: &str = "十七路公交车从上个月起改走滨河大道，不再经过第三中学门口。学生放学要走二十分钟才能到最近的站，雨天很不方便。\
                   希望恢复原来的线路，或者在早晚高峰加开几班。";

/// Matters about which there is only one letter: title and content.
const OTHERS: [(&str, &str); 22] = [
    ("垃圾清运", "北苑小区西门的垃圾房三天没有清运，气味很大，苍蝇到处飞。"),
    ("井盖破损", "文昌巷口有一个雨水井盖裂开了一半，电动车经过时很危险。"),
    ("医保报销", "我母亲在外地住院的费用，回来以后报销的材料退了两次，说不清楚缺什么。"),
    ("学区划分", "新建的锦绣园没有划进任何一所小学，九月孩子就要入学。"),
    ("违章搭建", "六楼住户在楼顶搭了彩钢房，下雨时水全流到我家阳台。"),
    ("暖气不热", "供暖一个月了，家里只有十四度，打电话总说正在调试。"),
    ("噪声扰民", "广场舞的音响每天早上五点半就开，附近上夜班的人没法休息。"),
    ("农田灌溉", "上游修路把水渠挖断了，下游三百亩稻田没有水插秧。"),
    ("拆迁补偿", "老房子的面积按航拍图算少了十二平方米，要求复核没有答复。"),
    ("食品安全", "在学校门口小店买的面包发霉，店家撕掉了生产日期。"),
    ("电动车充电", "车棚只有四个充电口，大家从窗户拉线，担心起火。"),
    ("树木遮挡", "人行道的梧桐树枝压到电线上，刮风时冒火花。"),
    ("停车收费", "医院对面的路边车位一夜之间开始收费，没有任何公示。"),
    ("河道污染", "石桥下面的小河这几天变成乳白色，岸边有死鱼。"),
    ("快递丢失", "快递柜显示已经取走，可是我没有收到，客服说不归他们管。"),
    ("燃气改造", "改造以后厨房的墙洞一直没有封，冬天往里灌风。"),
    ("养老金", "退休手续办了五个月，养老金还没有发，窗口说系统没有同步。"),
    ("电梯故障", "十八层的电梯坏了两个星期，家里有坐轮椅的病人下不了楼。"),
    ("道路积水", "铁路桥洞一下雨就积水，公交车都绕行，上班要多走半小时。"),
    ("装修扰民", "楼上每天中午砸墙，物业贴了通知也没有用。"),
    ("流浪狗", "幼儿园附近有七八条流浪狗，昨天追着孩子跑。"),
    ("图书馆开放", "社区图书馆周末不开门，上班的人根本没有机会去。"),
];

const PEOPLE: [&str; 6] = ["周兰", "钱大江", "孙小雨", "吴石", "郑秋", "冯远"];

/// Registers the letters, the oldest first, and waits until a search finds all of them.
pub(crate) fn fill(keyed: &KeyedServer) {
    let mut letters: Vec<(String, Value)> = Vec::new();
    for (number, (title, content)) in OTHERS.iter().enumerate() {
        let content =
            format!("{content}{}", if number % 2 == 0 { "请派人处理，盼复。" } else { "希望给个说法，盼复。" });
        letters.push((format!("2024-03-{:03}", number + 1), letter(title, &content, number, 3 + number / 2)));
    }
    let told = [
        ("101", "三号路路灯不亮", LAMPS, 0, 14),
        ("102", "自来水发黄", WATER, 1, 15),
        ("103", "饭店油烟噪声", NOISE, 2, 16),
        ("104", "拖欠工资", WAGES, 3, 17),
        ("105", "公交改线", BUS, 4, 18),
        ("106", "公交改线", BUS, 5, 19),
        ("107", "饭店油烟噪声一直没有解决", NOISE_AGAIN, 2, 24),
        ("108", "柳湾小区自来水有铁锈味", WATER_AGAIN, 3, 25),
        ("109", "三号路的路灯什么时候能修", LAMPS_AGAIN, 5, 26),
    ];
    for (id, title, content, person, day) in told {
        letters.push((format!("2024-03-{id}"), letter(title, &format!("{content}盼复。"), person, day)));
    }
    for (id, row) in &letters {
        put(keyed, id, row);
    }
    searchable(keyed, letters.len() as u64);
}

/// The newest letter. It repeats [`LAMPS_EARLIER`].
pub(crate) const LAMPS_LATER: &str = "2024-03-109";
/// The letter that [`LAMPS_LATER`] repeats.
pub(crate) const LAMPS_EARLIER: &str = "2024-03-101";
/// A letter about the same matter that has not been registered.
pub(crate) const LAMPS_AT_THE_DESK: &str = "安和里的居民反映，三号路从桥头到菜市场的十几盏路灯全部不亮，晚上走路只能用手机照明。我们打过两次电话报修，答复说已经登记，但一直没有人来修。";

fn letter(title: &str, content: &str, person: usize, day: usize) -> Value {
    let user = PEOPLE[person % PEOPLE.len()];
    json!({"title": title, "content": content, "user": user, "time": format!("2024-03-{day:02} 09:{:02}", 10 + person)})
}

/// Registers one letter.
#[track_caller]
pub(crate) fn put(keyed: &KeyedServer, id: &str, row: &Value) {
    let path = format!("/v1/collections/{COLLECTION}/records/{id}");
    let answer = keyed.server.send_as(keyed.key("intake"), "PUT", &path, row);
    assert_eq!(answer.status, 201, "{}", answer.text);
}

/// Waits until a search finds `count` letters.
pub(crate) fn searchable(keyed: &KeyedServer, count: u64) {
    let begun = Instant::now();
    loop {
        let path = format!("/v1/collections/{COLLECTION}/search");
        let answer = keyed.server.send_as(keyed.key("reader"), "GET", &path, &Value::Null);
        if answer.status == 200 && answer.json()["total"]["count"] == count && answer.json()["as_of"]["behind"] == 0 {
            return;
        }
        assert!(begun.elapsed() < Duration::from_secs(30), "{}", answer.text);
        std::thread::sleep(Duration::from_millis(20));
    }
}
