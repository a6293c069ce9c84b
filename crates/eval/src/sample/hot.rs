//! The hot event: many people write about the same event within a few days, each in different words.

use jiff::civil::Date;

use super::grammar::{StoryNames, TextChoices, alternatives, expand};
use super::rng::RandomStream;
use super::topics::{TopicMatter, WriterRelation};
use super::words::{FORENAMES, GIVEN, SURNAMES};

/// The kind of the group in `groups.jsonl`.
pub(super) const KIND: &str = "hot_event";

/// A possible event. In the matter, `places` are introductions of the writers, `signs` tell the event, and every `signs` template has a
/// date.
struct HotEvent {
    /// The topic of the event.
    label: &'static str,
    matter: TopicMatter,
}

const EVENTS: &[HotEvent] = &[
    HotEvent {
        label: "水电气热",
        matter: TopicMatter {
            who: WriterRelation::Resident,
            firm: "自来水公司",
            offices: "水务局/水务局",
            titles: "{路}[水管爆裂|主管道爆管]停水|{小区}[停水|没水用]，{路}爆管什么时候修好|{街道}[大面积停水|停水]求送水|{路}爆管[淹水|停水]|[家里|我们这里]没水了|\
                {路}水管抢修[太慢|没人通知]",
            places: "我住{小区}{栋}|{小区}的|我家在{路}[边上|旁边]，开[小饭馆|理发店]的|我[母亲|婆婆]一个人住{小区}|我们是{小区}{几十}户|我在{街道}[上班|租房住]|家住{路}{小区}|我带两个孩子住{小区}",
            signs: "{日}{路}的[自来水主管|供水主管道]爆了，[水喷得有两层楼高|路面冲出一个大坑]|{日}起水龙头[一滴水都没有|放不出水]，[听说|邻居说]是{路}的水管炸了|\
                {日}{路}挖管子的地方突然往外涌水，[周边|附近][几个小区|一大片]全停了|供水主管{日}在{路}破裂，[到现在|目前]没有恢复|{日}下班回家发现没水，一问才知道{路}[爆管|地下管裂了]|\
                {路}{日}[半夜|一早]地下水管裂开，[马路成了河|车都泡了]，家家断水|因为{路}爆管，我们从{日}开始[停水|没有水用]",
            causes: "[听说|有人讲]是[{公司}|供水公司]的老管子[几十年没换|早就该换]|旁边[修路|埋电缆]的挖机[碰断了管子|挖坏了主管]|抢修的只看到{两三}个人，[坑还敞着|水泵都不够]|\
                短信说[{几}个小时|当天]恢复，[一拖再拖|到点又没有]|供水热线[一直占线|打了{十几}次没人接]|送水车[只停在路口|来了一趟就没了]|[没有|没见]任何通知，[群里|大家]全靠猜",
            effects: "家里有[瘫痪的老人|刚出生的婴儿]，[擦洗|冲奶]都没有水|店里[一天没开张|退了{几}桌客人]|马桶[冲不了|臭了一屋子]|[孩子|我]只能[去单位|到亲戚家]洗澡|\
                超市的桶装水[卖光了|涨到{小钱}元一桶]|[住高层|住{楼层}]，提水[腿都软了|上下跑{几}趟]|地下车库[进了水|泡了{十几}辆车]|[透析回来|做完手术]的父亲[要静养|要喝药]，没水[怎么行|实在难]|饭也[没法做|只能点外卖]",
            asks: "[尽快|马上]抢修恢复供水|[派|多派]送水车[进小区|到楼下]|[公布|告知]恢复的准确时间|[查清|说明]爆管的原因|[赔偿|补偿]被淹的[车|店铺]|把{路}的老管子[换掉|彻底改造]",
        },
    },
    HotEvent {
        label: "环境保护",
        matter: TopicMatter {
            who: WriterRelation::Resident,
            firm: "化工厂|涂料厂",
            offices: "生态环境局/环保局",
            titles: "{路}[一带|附近]有刺鼻[气味|臭味]|{公司}[排放刺鼻气体|半夜排废气]|{小区}[夜里闻到怪味|不敢开窗]|[举报|反映]{公司}[乱排|排臭气]|{街道}空气里[有臭鸡蛋味|呛人]|[什么味道|怪味]熏得睡不着",
            places: "我是{小区}居民|家住{小区}{栋}|我在{路}[开店|上夜班]|我家[小孩|老人]住{小区}|{小区}的业主|我每天在{路}[跑步|接孩子]|我们[一家|{几}口人]住{小区}|{路}旁边[住户|商户]",
            signs: "{日}[夜里|晚上]飘来一股[臭鸡蛋|烧塑料]味，[呛得嗓子疼|熏得头晕]|从{日}开始{路}[一带|附近]有[酸臭|刺鼻]的气味|{日}{公司}的烟囱[冒黄烟|一直冒白烟]，[味道|气味]特别冲|\
                {日}[半夜|后半夜]被怪味[熏醒|呛醒]，[打开窗更浓|关了窗也没用]|{公司}那边{日}又在[排|放][废气|毒气]，[整条街|好几个小区]都闻得到|{日}一出门就[闻到|吸了一口][氨水|油漆]一样的味，[眼睛直流泪|胸口发闷]|[这股|一股]味道{日}就有了，风从{公司}[那个方向|那头]吹过来",
            causes: "都说是{公司}[趁夜里排的|设备坏了]|[白天没有|天一亮就散了]，{晚上}[才来|最浓]|[保安|门卫]说[厂里在检修|不知道]|环保热线[说已派人|让等结果]，[人没见到|第二天又有]|[业主群|家长群]里[几百条|全是]说这个味的|[空气质量|手机]显示优，[谁信|跟鼻子闻的不一样]",
            effects: "[孩子|女儿]咳了[一夜|两天]|[怀孕|坐月子]的[妻子|儿媳]吐了|[父亲|母亲]有哮喘，[喘得去了急诊|用了{几}次喷雾]|门窗[全关上还有|用胶带封了]|[晾的衣服|被子]全是味|[学校|幼儿园]让孩子[戴口罩上课|停了操]|[跑步|散步]的人都[捂着嘴往回走|没有了]",
            asks: "[连夜|马上]来查是哪家排的|[公布|告诉大家]这是什么气体、有没有毒|[责令|要求]{公司}停产|[在小区|在{路}]装监测设备|[夜里|{深夜}]派人蹲守|给[住户|大家]一个说法",
        },
    },
    HotEvent {
        label: "教育文体",
        matter: TopicMatter {
            who: WriterRelation::Parent,
            firm: "餐饮配送公司",
            offices: "教育局/教育局|市场监督管理局/市监局",
            titles: "{学校}[学生吃坏肚子|食堂出事]|{学校}午餐[导致孩子呕吐|有问题]|[请查|彻查]{学校}[送餐公司|食堂]|孩子在{学校}[上吐下泻|食物中毒]|{公司}[给学校送的饭变质|是谁选的]",
            places: "我是{学校}[家长|学生家长]|孩子在{学校}[念书|上学]|我家[老大|女儿]是{学校}的|[作为|身为]{学校}的家长|我[侄子|外孙]在{学校}|家里[双胞胎|两个娃]都在{学校}|{小区}的家长",
            signs: "{日}{学校}[十几个|几十个]孩子[吃完午饭|中午吃饭后][上吐下泻|肚子疼]|{日}放学孩子就[喊肚子疼|吐了{几}次]，[同班|一个班]好几个都这样|{学校}{日}的[午餐|盒饭]有[酸味|馊味]，[吃了的|好多]学生都[进了医院|发烧]|\
                {日}晚上[医院儿科|急诊]里全是{学校}的[学生|孩子]，都是[吃了学校的饭|拉肚子]|[接到|收到]老师电话说孩子{日}[吐了|不舒服]，到{学校}一看[躺了一排|走廊上都是]|{日}{学校}[食堂的肉没熟|的鸡腿发臭]，孩子们[吃了就出事|拉到脱水]",
            causes: "饭是{公司}[送的|配的]，[从哪来的没人知道|路上要一个多小时]|学校让家长[别在群里说|等通知]|[老师|校长]说是[天气热|受凉]|[留样|剩饭][说倒掉了|不给看]|[以前|上学期]就有孩子[吃出虫|说饭是冷的]|[家委会|家长]要看厨房，[门卫不让进|说要预约]",
            effects: "孩子[打了{两三}天点滴|瘦了一圈]|[请假|丢下工作]在医院[陪了两夜|守着]|医药费{千钱}元[自己垫的|谁出]|孩子[不敢再吃学校的饭|一提吃饭就哭]|[奶奶|妈妈]急得[直掉泪|血压高]|[下周考试|课]也[耽误了|上不成]",
            asks: "[公布|尽快给出]检测结果|[停掉|更换]{公司}|[封存|保留]留样和监控|[处理|追究]负责的人|[承担|报销]孩子的医药费|让家长[进厨房看|参与监督]",
        },
    },
    HotEvent {
        label: "交通运输",
        matter: TopicMatter {
            who: WriterRelation::Resident,
            firm: "公交公司",
            offices: "交通运输局/交通局",
            titles: "{线路}公交[为什么取消|停运]|[请恢复|还我们]{线路}公交|{线路}停了，[老人怎么看病|上班怎么办]|[反对|不同意]取消{线路}|{路}[没有公交了|公交站撤了]",
            places: "我住{小区}|{小区}{栋}的[老住户|居民]|我在{路}[卖早点|做保洁]|我女儿在{学校}上学|我七十多岁了，住{小区}|[我们|单位]{几}个同事都住{小区}|家在{路}[尽头|后面]",
            signs: "{日}起{线路}公交[不开了|停运了]，[站牌上贴了张纸|事先谁也不知道]|{日}[等了一个小时|在站台站到九点]，才听说{线路}取消了|{线路}[这条线|公交]{日}突然[撤了|没了]，{路}[一班车都不剩|上的人全傻眼]|\
                [{公司}|公交公司]{日}[把{线路}砍掉|说{线路}客流少]，[就不跑了|不再经过{路}]|听说{线路}从{日}[起停开|就没有了]，我们[{路}这边|这一片]只有这一路车|{日}[早上|出门]发现{线路}的站牌[拆了|蒙上了布]",
            causes: "说是[客流少|亏本]，[早上明明挤不上去|可每趟都站满人]|[通知|公告]只在[公司网站|手机上]，[老人哪里看得到|没几个人知道]|[没有|也没]开过[听证会|座谈会]|让我们[去坐别的线|走到{路名}换车]，要走[两公里|{几十}分钟]|[开发区|新城]那边[加了车|多了{两三}条线]，老城倒砍了",
            effects: "[去医院|做透析]只能[打车|让人背]，一趟{小钱}元|[上班|早班]迟到[扣了{百钱}元|{几}次]|孩子[走路上学|放学]要过[两条大马路|没灯的路]|[腿脚不好|拄拐杖]的[出不了门|买菜都难]|[骑电动车|拼车]的[摔了{两三}个|多花不少]|[摊子|活]也[干不成了|要丢了]",
            asks: "[恢复|重开]{线路}|[哪怕|至少]早晚各[开几趟|留一班]|[公开|说明]取消的理由和[客流|数据]|开[小巴|社区巴士]接驳|[听一听|征求]居民的意见再定",
        },
    },
];

/// Templates that the expansion test checks.
#[cfg(test)]
pub(super) fn templates() -> impl Iterator<Item = &'static str> {
    EVENTS
        .iter()
        .flat_map(|event: &'static HotEvent| {
            let matter = &event.matter;
            [matter.titles, matter.places, matter.signs, matter.causes, matter.effects, matter.asks]
        })
        .chain([GREETINGS, ENDS])
}

const GREETINGS: &str = "[领导|你们]好，|您好！||||";
const ENDS: &str = "[谢谢|拜托了]！|[急急急|真的很急]|盼复|[不要|别]再拖了||||";

/// A letter or an order about the hot event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct HotLetter {
    pub(super) title: String,
    pub(super) content: String,
    pub(super) user: String,
    pub(super) label: &'static str,
    pub(super) district: &'static str,
    pub(super) office: &'static str,
}

/// Returns the letter `index` about the hot event of `seed`, which began on the day `begun` and is written on the day `today`. Each
/// writer has another name. `ordered` is true if an operator writes down a telephone call.
pub(super) fn hot_letter(seed: u64, index: u64, begun: Date, today: Date, ordered: bool) -> HotLetter {
    let mut rng = RandomStream::of(&[seed, 70]);
    let event = &EVENTS[rng.below(EVENTS.len())];
    let scene = StoryNames::new(&event.matter, begun, &mut rng);
    let first_name = rng.below(SURNAMES.len());
    let mut rng = RandomStream::of(&[seed, index, 71]);
    let scene = scene.neighbour(today, &mut rng);
    let surname = SURNAMES[(first_name + index as usize * 5) % SURNAMES.len()];
    let given = if rng.chance(50) {
        rng.pick(GIVEN).to_owned()
    } else {
        format!("{}{}", rng.pick(FORENAMES[0]), rng.pick(FORENAMES[1]))
    };
    let mut writer =
        EventWriter { scene: &scene, days: begun.until(today).map_or(0, |span| span.get_days()) as u64, rng };
    let title = writer.say(event.matter.titles, true);
    let content = if ordered { writer.order(&event.matter) } else { writer.letter(&event.matter) };
    let (office, _) = scene.office;
    HotLetter {
        title,
        content,
        user: format!("{surname}{given}"),
        label: event.label,
        district: scene.district,
        office,
    }
}

/// One person who writes about the event.
struct EventWriter<'a> {
    scene: &'a StoryNames,
    /// Number of days since the event.
    days: u64,
    rng: RandomStream,
}

impl EventWriter<'_> {
    /// Expands one template of a list.
    fn say(&mut self, list: &'static str, formal: bool) -> String {
        let template = self.rng.pick(&alternatives(list).0);
        let mut voice = TextChoices::of(self.rng.next(), self.rng.next());
        voice.days_ago = Some(self.days);
        voice.formal = formal;
        let mut text = String::new();
        expand(template, self.scene, &mut voice, &mut text);
        text
    }

    fn letter(&mut self, matter: &TopicMatter) -> String {
        let mut text = self.say(GREETINGS, false);
        text.push_str(&self.say(matter.places, true));
        text.push_str(self.rng.pick(&["，", "。", "，"]));
        text.push_str(&self.say(matter.signs, false));
        text.push('。');
        text.push_str(&self.clauses(matter));
        text.push_str(self.rng.pick(&["请", "希望", "恳请有关部门", "要求", "请领导"]));
        text.push_str(&self.say(matter.asks, false));
        text.push_str(self.rng.pick(&["。", "！", "。"]));
        text + &self.say(ENDS, false)
    }

    fn order(&mut self, matter: &TopicMatter) -> String {
        let head = self.rng.pick(&["来电人反映：", "市民来电表示，", "市民致电称，", "群众拨打热线反映，"]);
        let body = format!("{head}{}。{}", self.say(matter.signs, true), self.clauses(matter));
        let ask = self.say(matter.asks, true);
        let (_, office) = self.scene.office;
        format!("{body}{}{ask}。请{office}核实处理。", self.rng.pick(&["来电人要求", "希望", "市民希望"]))
    }

    /// Returns one or two sentences about the cause and the consequences.
    fn clauses(&mut self, matter: &TopicMatter) -> String {
        let mut effects = alternatives(matter.effects).0;
        self.rng.shuffle(&mut effects);
        effects.truncate(self.rng.between(1, 3));
        let mut clauses: Vec<String> = effects.into_iter().map(|effect| self.say(effect, false)).collect();
        if self.rng.chance(65) {
            let at = self.rng.below(clauses.len() + 1);
            clauses.insert(at, self.say(matter.causes, false));
        }
        clauses.into_iter().map(|clause| clause + self.rng.pick(&["，", "；", "。", "。"])).collect::<String>()
    }
}
