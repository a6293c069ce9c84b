//! What names of things end in, and what never is part of one. Written for petitions and hotline orders.

use std::sync::LazyLock;

use hashbrown::{HashMap, HashSet};

use crate::verdict::ObjectKind;

/// Endings of names, by what they name. The longest that fits counts.
const SUFFIXES: &[(ObjectKind, &str)] = &[
    (ObjectKind::District, "省 市 区 县 自治州 新区 开发区 高新区 地区 镇 乡 街道 街道办 社区 居委会 村委会"),
    (
        ObjectKind::Road,
        "路 街 大街 大道 巷 弄 胡同 高速 大桥 桥 立交 立交桥 隧道 路口 中路 东路 西路 南路 北路 支路 公路 环路 快速路 步行街 商业街",
    ),
    (
        ObjectKind::Place,
        "村 新村 屯 庄 小区 花园 家园 苑 园 城 新城 广场 公园 公寓 大厦 大楼 商场 超市 市场 菜市场 批发市场 农贸市场 公馆 府 湾 郡 \
         庭 华庭 邸 名邸 别墅 山庄 大院 宿舍 家属院 工地 项目 车站 码头 机场 酒店 宾馆 饭店 茶馆 餐厅 酒楼 网吧 农场 林场 坊 轩 阁 岛 \
         丽园 佳园 雅园 嘉园 名城 花苑 半岛 世家 华府 豪庭 首府 外滩 片区 安置区 安置房 廉租房 公租房 老街 景区 工业园 产业园 科技园",
    ),
    (ObjectKind::Water, "河 溪 江 湖 渠 沟 港 浦 支河 内河 水库 水系 池塘 河段 沙滩 海滩"),
    (
        ObjectKind::Organisation,
        "公司 集团 厂 工厂 医院 卫生院 卫生所 诊所 银行 学校 小学 中学 大学 学院 幼儿园 高中 初中 \
         一中 二中 三中 四中 五中 六中 七中 八中 九中 十中 \
         一小 二小 三小 四小 五小 六小 七小 八小 九小 十小 附中 附小 \
         培训机构 驾校 局 所 派出所 委员会 中心 服务中心 店 门店 专卖店 商行 物业 俱乐部 健身房 会所 美容院 养老院 福利院 车队 支队 大队",
    ),
];

/// Endings whose first character tells things of one name apart, by number or side; a part of the name, then.
const TELLING_ENDINGS: &str = "东路 西路 南路 北路 中路 大桥 新村 老街 一中 二中 三中 四中 五中 六中 七中 八中 九中 十中 \
    一小 二小 三小 四小 五小 六小 七小 八小 九小 十小";

/// Endings of things that are numbered: "second road", "3 village".
const NUMBERED: &str = "路 街 巷 弄 村";

/// What roads are named for, beside proper names.
const NAMESAKES: &str = "人民 建设 解放 和平 友谊 胜利 团结 民主 幸福 健康 光明 朝阳 振兴 发展 迎宾 科技 科学 科创 创新 创业 学府 文化 教育 体育 \
    工业 商业 园区 高新 开发 产业 物流 港口 机场 滨河 滨江 滨湖 滨海 沿江 沿河 环城 环湖 环山";

/// What roads of one character are called that are then numbered: those of grids.
const GRIDS: &str = "经纬东西南北中";

/// What follows the number of a bus line, not that of a road.
const BEHIND_LINES: &str = "公交 公交车 巴士 班车 车 车辆 线 站 站台 站牌 司机 首班 首班车 末班 末班车 首末班 首末班车 班次 \
    发车 到站 进站 晚点 改线 停运 停开";

/// Endings of what roads and villages are named for, beside waters.
const LANDMARKS: &str = "桥 湾 岛 庄 屯 坊 城 园";

/// What words of roads go on with: lamp, surface, mouth, side, section, kerb, sign, condition, bed, barrier.
const BEHIND_ROAD: &str = "灯面口边段沿牌况基障";

/// What sets things of one name against each other.
const SIDES: &str = "东西南北中上下前后大小新老";

/// Names that end in nothing: whom people complain about most.
const BRANDS: &[&str] = &[
    "电信",
    "联通",
    "移动",
    "广电",
    "铁塔",
    "邮政",
    "顺丰",
    "京东",
    "淘宝",
    "天猫",
    "拼多多",
    "抖音",
    "快手",
    "美团",
    "饿了么",
    "滴滴",
    "摩拜",
    "哈罗",
    "哈啰",
    "青桔",
    "支付宝",
    "微信",
    "中石化",
    "中石油",
    "国家电网",
    "南方电网",
];

/// Endings that take the name before them in: of "something bay estate" the whole is the name.
const JOINING: &str = "路 街 大道 巷 村 小区 花园 河 苑 镇 乡 区 街道 街道办 公司 小学 中学 学校 医院 大厦 广场 公园 新村 家园 幼儿园 公寓 山庄";

/// Words that end a name on its left side.
const BOUNDARIES: &str = "的 了 在 是 位于 附近 旁 旁边 反映 投诉 举报 我 我们 市民 来电 咨询 要求 关于 和 与 及 至 到 从 由 被 把 对 向 \
    家住 该 本 此 这 那 每 各 某 其 现 请 让 给 有 无 没有 已 前 后 对面 门口 门前 交叉口 交汇处 为 就 称 业主 住户 居民 号 号楼 栋 \
    幢 层 室 单元 户 一个 全 整个 哪个 所有 多个 几个 个 周边 周围 因 将 又 还 也 都 以 于 等 或 并 且 乘坐 换乘 转乘 改乘 搭乘 但 而 因为 由于 进行 尊敬 领导 \
    您好 你好 问题 情况 往 去 回 进 出 离 经过 沿 靠近 通往 通过 使用 办理 请问 希望 建议 需要 可以 不 未 很 太 多 再 说 问 找 叫 处理 \
    核实 严重 那个 这个 什么 之 们 你 他 她 它 您 谁 哪 多年 今年 去年 目前 现在 如何 怎么 是否 能否 相关 有关 当地 本地 违规 违法";

/// Words that end like a name and are none, and end one on its left side.
const COMMON_NOUNS: &str = "学区 城区 市区 郊区 山区 辖区 灾区 街区 居民区 住宅区 生活区 特区 老区 县区 本省 全省 我省 本市 全市 我市 \
    本县 全县 我县 本区 全区 我区 本镇 我镇 本乡 我乡 本村 我村 全村 城市 乡镇 村镇 集镇 乡村 农村 城乡 村庄 公路 马路 道路 铁路 线路 \
    电路 思路 出路 大路 小路 后路 门市 楼市 股市 上市 早市 夜市 河道 水沟 排水沟 下水道 人行道 车道 通道 隧道口 住宅小区 该小区 我小区 \
    本公司 该公司 我公司 分公司 子公司 总公司 母公司 各公司 本校 该校 学校 医院 公司 银行 工厂 物业公司 开发公司";

/// What stands before an ending without naming anything.
const VAGUE: &str = "政府 居民 业主 物业 市政 有关 相关 职能 小区 我们 本 该 各 农村 乡村 城市 社会 国家 中国 人民 公共 基层 地方 主管 \
    行政 执法 政法 监管 监督 管理 部门 政策 法律 民 公 大 小 老 新 两 三 一 家 房 马 道 水 出 下 上 外 内 中 县 区 市 镇 乡 省 村 全 半 \
    主 网 电 手 高 低 长 短 左 右 东 西 南 北 走 回 过 修 铁 线 思 套 门 后 前 进 退 弯 直 无 有 每 停 堵 开 生 活 居住 住宅 商品 自建 \
    违章 违法 老旧 房地产 开发 建筑 建设 施工 工程 装修 培训 事业 企业 民营 私人 国有 上市 责任 股份 有限 用人 本人 有限责任 股份有限 \
    多家 一家 这家 那家 心 地下 停车 垃圾 污水 生活 交通 公交 汽车 火车 地铁 出租 共享 单车 电动 安全 教育 环境 医疗 文化 经济 科技 \
    金融 住房 土地 自然 资源 职能局";

/// Characters that count things: a name of these alone is a number of things.
pub(super) const COUNTING: &str = "一二三四五六七八九十百千两几多各每本该数单双整半全个条家座栋所间处片";

/// What a plate begins with.
const PROVINCES: &str = "京津沪渝冀豫云辽黑湘皖鲁新苏浙赣鄂桂甘晋蒙陕吉闽贵粤青藏川宁琼";

/// What is counted or measured: a number before it names nothing.
const UNITS: &str = "元块米平分小天个月年人户次万岁层台辆条家公点几名亩吨斤度届期周楼日时秒位只项份张件本种批倍组间号栋幢座单室房弄千百亿毫厘克升瓦伏";

fn words(list: &'static str) -> HashSet<&'static str> {
    list.split_ascii_whitespace().collect()
}

static ENDINGS: LazyLock<HashMap<&'static str, ObjectKind>> = LazyLock::new(|| {
    let of =
        |(kind, list): &(ObjectKind, &'static str)| list.split_ascii_whitespace().map(|word| (word, *kind)).collect();
    SUFFIXES.iter().flat_map(|entry| -> Vec<_> { of(entry) }).collect()
});
static LONGEST_ENDING: LazyLock<usize> =
    LazyLock::new(|| ENDINGS.keys().map(|word| word.chars().count()).max().unwrap_or(0));
static TELLING_SET: LazyLock<HashSet<&'static str>> = LazyLock::new(|| words(TELLING_ENDINGS));
static NUMBERED_SET: LazyLock<HashSet<&'static str>> = LazyLock::new(|| words(NUMBERED));
static NAMESAKE_SET: LazyLock<HashSet<&'static str>> = LazyLock::new(|| words(NAMESAKES));
static BEHIND_LINES_SET: LazyLock<HashSet<&'static str>> = LazyLock::new(|| words(BEHIND_LINES));
static LANDMARK_SET: LazyLock<HashSet<&'static str>> = LazyLock::new(|| words(LANDMARKS));
static JOINING_SET: LazyLock<HashSet<&'static str>> = LazyLock::new(|| words(JOINING));
static BOUNDARY_SET: LazyLock<HashSet<&'static str>> = LazyLock::new(|| words(BOUNDARIES));
static COMMON_NOUN_SET: LazyLock<HashSet<&'static str>> = LazyLock::new(|| words(COMMON_NOUNS));
static VAGUE_SET: LazyLock<HashSet<&'static str>> = LazyLock::new(|| words(VAGUE));

/// What endings end in: most words are told by that to have none.
static LAST_CHARS: LazyLock<HashSet<char>> =
    LazyLock::new(|| ENDINGS.keys().filter_map(|word| word.chars().last()).collect());
static BRANDS_BY_FIRST: LazyLock<HashMap<char, Vec<&'static str>>> = LazyLock::new(|| {
    let mut brands: HashMap<char, Vec<_>> = HashMap::new();
    for brand in BRANDS {
        brands.entry(brand.chars().next().unwrap_or_default()).or_default().push(*brand);
    }
    brands
});
static PROVINCE_SET: LazyLock<HashSet<char>> = LazyLock::new(|| PROVINCES.chars().collect());
static UNIT_SET: LazyLock<HashSet<char>> = LazyLock::new(|| UNITS.chars().collect());

/// The brand that stands at the beginning of `text`.
pub(super) fn brand(text: &str) -> Option<&'static str> {
    let of = BRANDS_BY_FIRST.get(&text.chars().next()?)?;
    of.iter().copied().find(|brand| text.starts_with(brand))
}

/// Whether a plate may begin with it.
pub(super) fn is_province(c: char) -> bool {
    PROVINCE_SET.contains(&c)
}

/// Whether it counts or measures.
pub(super) fn is_unit(c: char) -> bool {
    UNIT_SET.contains(&c)
}

/// The longest ending of `word`, and what it names.
pub(super) fn ending(word: &str) -> Option<(&str, ObjectKind)> {
    if !LAST_CHARS.contains(&word.chars().last()?) {
        return None;
    }
    let chars = word.chars().count();
    let skipped = chars.saturating_sub(*LONGEST_ENDING);
    let starts = word.char_indices().map(|(at, _)| at).skip(skipped);
    starts.map(|at| &word[at..]).find_map(|tail| Some((tail, *ENDINGS.get(tail)?)))
}

/// Whether `word` is an ending that takes the name before it in.
pub(super) fn joins(word: &str) -> bool {
    JOINING_SET.contains(word)
}

/// How many bytes at the beginning of an ending are a part of the name, since they tell it from others: of "east road" the first.
pub(super) fn telling_bytes(ending: &str) -> usize {
    let first = ending.chars().next().filter(|_| TELLING_SET.contains(ending));
    first.map_or(0, char::len_utf8)
}

/// Whether things that end so are numbered.
pub(super) fn is_numbered(ending: &str) -> bool {
    NUMBERED_SET.contains(ending)
}

/// Whether things of this kind are named for it, whatever else the word means.
pub(super) fn is_namesake(kind: ObjectKind, word: &str) -> bool {
    match kind {
        ObjectKind::Road => NAMESAKE_SET.contains(word),
        ObjectKind::Organisation => word == "实验",
        _ => false,
    }
}

/// Whether a word behind "road" was cut off from it: "lamp".
pub(super) fn follows_road(word: &str) -> bool {
    word.starts_with(|c| BEHIND_ROAD.contains(c))
}

/// Whether what goes "all the way" begins there.
pub(super) fn begins_way(word: &str) -> bool {
    ["从", "由", "自"].contains(&word)
}

/// Whether it is a direction and nothing else.
pub(super) fn is_direction(word: &str) -> bool {
    ["东", "西", "南", "北"].contains(&word)
}

/// Whether it is what the roads of a grid are called.
pub(super) fn is_grid(word: &str) -> bool {
    GRIDS.contains(word)
}

/// Whether what is numbered before it is a bus line.
pub(super) fn follows_line(word: &str) -> bool {
    BEHIND_LINES_SET.contains(word)
}

/// Whether roads and villages are named for what ends so.
pub(super) fn is_landmark(ending: &str) -> bool {
    LANDMARK_SET.contains(ending)
}

/// Whether it sets things of one name against each other.
pub(super) fn is_side(c: char) -> bool {
    SIDES.contains(c)
}

/// Whether `word` is an ending and nothing else.
pub(super) fn is_ending(word: &str) -> bool {
    ENDINGS.contains_key(word)
}

/// Whether a name cannot reach beyond `word` to the left.
pub(super) fn is_boundary(word: &str) -> bool {
    BOUNDARY_SET.contains(word) || (COMMON_NOUN_SET.contains(word) && !is_ending(word))
}

/// Whether `word` ends like a name and is none, whatever stands before it.
pub(super) fn is_common_noun(word: &str) -> bool {
    COMMON_NOUN_SET.contains(word) && !is_ending(word)
}

/// Whether `word` names nothing before an ending.
pub(super) fn is_vague(word: &str) -> bool {
    VAGUE_SET.contains(word) || BOUNDARY_SET.contains(word)
}
