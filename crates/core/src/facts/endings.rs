//! Endings of names, and the words that show where a name begins.

use std::sync::LazyLock;

use hashbrown::HashMap;

use super::FactKind;
use super::chars::Chars;
use super::literals::literals;

/// Endings by kind.
const ENDINGS: &[(FactKind, &str)] = &[
    (FactKind::District, "新区 开发区 高新区 经开区 示范区 保税区 自治县 自治州"),
    (FactKind::Town, "镇 乡 街道 街道办 街道办事处"),
    (FactKind::Village, "村 社区 居委会 村委会 社区居委会 村民委员会 屯 庄 寨"),
    (
        FactKind::Road,
        "路 街 大街 大道 巷 胡同 高速 高速公路 国道 省道 立交 立交桥 隧道 环路 快速路 步行街 商业街 路口 路段 公路 匝道 环线 绕城 斜街 正街 横路 支路 老街",
    ),
    (
        FactKind::Estate,
        "小区 花园 家园 苑 园 花苑 佳园 雅园 嘉园 丽园 雅苑 嘉苑 佳苑 公馆 公寓 府 湾 郡 庭 华庭 雅庭 邸 官邸 别墅 山庄 新村 大院 家属院 宿舍 城 新城 名城 华府 豪庭 首府 \
         半岛 世家 世纪城 国际城 轩 阁 坊 名苑 名邸 名都 名郡 水岸 安置区 安置房 廉租房 公租房 经适房 西里 东里 南里 北里 家苑 悦府 院子 庭院 御府 丽苑 雅居 豪苑 翠庭 东苑 西苑 南苑 北苑",
    ),
    (
        FactKind::PublicPlace,
        "广场 公园 大厦 大楼 商厦 商场 超市 市场 菜市场 批发市场 农贸市场 农批市场 购物中心 商城 百货 大桥 桥 天桥 码头 机场 车站 火车站 汽车站 地铁站 公交站 高铁站 客运站 站 \
         枢纽 场站 公交场站 总站 体育场 体育馆 图书馆 博物馆 美术馆 文化馆 展览馆 会展中心 体育中心 中心 酒店 宾馆 饭店 餐厅 酒楼 网吧 会所 景区 风景区 河 溪 江 湖 渠 水库 水系 支河 内河 沙滩 \
         山 岛 寺 庙 工业园 产业园 科技园 物流园 工业区 创业园 软件园 湿地 沟 港 养老院 福利院 停车场 加油站 垃圾站 变电站 污水厂 电站 大市场 建材城 家具城 汽配城 步行桥 跨线桥 人行天桥 \
         立交桥 陵园 公墓 殡仪馆 动物园 植物园 游乐园 度假村 农庄 综合楼 写字楼 名店 影城 电影院 剧院 中心广场 绿地 林场 农场 渔场",
    ),
    (
        FactKind::School,
        "学校 小学 中学 大学 学院 幼儿园 高中 初中 一中 二中 三中 四中 五中 六中 七中 八中 九中 十中 一小 二小 三小 四小 五小 六小 七小 八小 九小 十小 附中 附小 职校 技校 \
         校区 驾校 党校 学校本部 中心小学 实验小学 实验中学 职业学院 技术学院 托育中心 早教中心 培训学校 培训中心",
    ),
    (
        FactKind::Organisation,
        "公司 有限公司 有限责任公司 股份有限公司 集团 厂 工厂 医院 人民医院 卫生院 卫生所 诊所 卫生室 银行 支行 分行 信用社 局 派出所 法院 检察院 管委会 委员会 交警队 交警大队 \
         支队 大队 中队 商行 经营部 事务所 物业 俱乐部 健身房 美容院 专卖店 旗舰店 分公司 子公司 总公司 合作社 协会 商会 基金会 日用品店 专营店 研究院 研究所 设计院 报社 电视台 \
         厅 教育厅 财政厅 公安厅 服务中心 管理处 管理局 分局 服务站 供电所 供电局 电信局 税务所 司法所 土管所 国土所 水务局 水厂 化工厂 焦化厂 砖厂 加工厂 养殖场 养猪场 采石场 搅拌站 车队 培训机构 教育局",
    ),
];

/// Endings that do not change the meaning of a name, the longest first.
const LOOSE_WORDS: &str = "有限责任公司 股份有限公司 街道办事处 社区居委会 村民委员会 居民委员会 集团有限公司 人民医院 \
    有限公司 街道办 居委会 村委会 自治区 自治州 自治县 派出所 幼儿园 公交站 地铁站 火车站 住宅区 小区 街道 社区 公司 \
    集团 医院 小学 中学 学校 大学 学院 公园 广场 大厦 公寓 花园 家园 新村 新区 大道 大街 路口 路段 项目 工地 楼盘 别墅 \
    站 省 市 区 县 旗 镇 乡 村 路 街 巷 里 苑 河 城";

static LOOSE: LazyLock<Vec<&str>> = LazyLock::new(|| LOOSE_WORDS.split_whitespace().collect());

/// Returns the part of a name before its ending, or the whole name if less than two characters would be left. A number
/// or a side before the ending belongs to the returned part.
pub(super) fn core(name: &[char]) -> &[char] {
    let length = LOOSE.iter().find_map(|ending| {
        let length = ending.chars().count();
        let ends = name.len() > length + 1 && name[name.len() - length..].iter().copied().eq(ending.chars());
        ends.then_some(length)
    });
    length.map_or(name, |length| &name[..name.len() - length])
}

/// Endings with their kinds, by their last character.
type EndingsByLast = HashMap<char, Vec<(Vec<char>, FactKind)>>;

static BY_LAST: LazyLock<EndingsByLast> = LazyLock::new(|| {
    let mut by_last: EndingsByLast = HashMap::new();
    for (kind, list) in ENDINGS {
        for ending in list.split_whitespace() {
            let ending: Vec<char> = ending.chars().collect();
            by_last.entry(ending[ending.len() - 1]).or_default().push((ending, *kind));
        }
    }
    by_last
});

/// Returns the start and the kind of the longest ending before `end` that does not begin before `first`.
pub(super) fn before(text: &Chars, first: usize, end: usize) -> Option<(usize, FactKind)> {
    let chars = text.as_slice().get(first..end)?;
    let endings = BY_LAST.get(chars.last()?)?.iter().filter(|(ending, _)| chars.ends_with(ending));
    endings.map(|(ending, kind)| (end - ending.len(), *kind)).min_by_key(|(start, _)| *start)
}

/// True if the ending of a school, an organisation or a road follows a name that ends at `end`: then the name is part
/// of another name.
pub(super) fn is_continued(text: &Chars, end: usize) -> bool {
    OTHER_NAMES.at(text, end).is_some_and(|stop| !BEHIND_ROAD.contains(text.at(stop)) || text.before(stop) != '路')
}

/// True if the ending of a name of any kind follows at `end`: 翠湖 is a part of 翠湖公园.
pub(super) fn is_part_of_name(text: &Chars, end: usize) -> bool {
    is_continued(text, end) || JOINING.at(text, end).is_some() || MORE_JOINING.at(text, end).is_some()
}

literals! {
    /// Endings of names that [`JOINING`] does not have.
    MORE_JOINING,
    "县 区 银行 一小 二小 三小 一中 二中 三中"
}

literals! {
    /// Endings that turn a place before them into another name.
    OTHER_NAMES,
    "小学 中学 学校 幼儿园 医院 派出所 社区 居委会 村委会 公司 有限公司 路 东路 西路 南路 北路 街道 酒店 宾馆 超市 大桥 隧道"
}

literals! {
    /// Endings that include a name just before them: 青石桥小学 is a school.
    JOINING,
    "路 街 大道 大街 巷 村 小区 花园 家园 苑 镇 乡 街道 街道办 公司 有限公司 小学 中学 学校 幼儿园 医院 大厦 广场 公园 新村 公寓 山庄 站 地铁站 公交站 火车站 \
     派出所 社区 居委会 村委会 市场 菜市场 农贸市场 酒店 宾馆 超市 商场 集团 工业园 产业园 物流园 分局 支行 大桥 卫生院 卫生室 公交场站 总站 东路 西路 南路 北路 中路 \
     河 湖 枢纽站 枢纽 校区 小学部 体育馆 体育中心 图书馆 停车场 度假村 水库 隧道 立交桥 立交 学院 大学 安置房 安置区 中心小学 中心医院 综合楼 服务区 收费站 加油站 桥 园 城"
}

literals! {
    /// Words that cannot be part of a name. A name begins after such a word.
    BOUNDARIES,
    "左右 的 了 在 是 位于 附近 旁 旁边 反映 投诉 举报 我 我们 市民 来电 咨询 要求 关于 和 与 及 至 到 从 由 被 把 对 向 \
    家住 该 本 此 这 那 每 各 某 其 现 请 让 给 有 没有 已 对面 门口 门前 交叉口 交汇处 交界处 为 就 称 业主 住户 \
    居民 号 号楼 栋 幢 单元 一个 整个 哪个 所有 多个 几个 个 周边 周围 因 将 又 还 也 都 以 于 等 或 并 且 乘坐 \
    换乘 转乘 改乘 搭乘 但 而 因为 由于 进行 尊敬 领导 您好 你好 问题 情况 亲人 家人 家属 小时候 毕业 惊闻 遭遇 无辜 私设 计划 建好 距离 骗子 任由 挂号 往 去 离 经过 沿 靠近 通往 通过 使用 办理 \
    请问 希望 建议 需要 可以 不 未 很 太 多 再 说 问 找 叫 处理 核实 严重 那个 这个 什么 之 们 你 他 她 它 您 谁 \
    哪 多年 今年 去年 目前 现在 如何 怎么 是否 能否 相关 有关 当地 本地 违规 违法 但是 而且 并且 以及 或者 还有 如果 \
    虽然 所以 因此 住 住在 居住 居住在 自从 跟 同 像 比如 例如 包括 途经 途径 经由 坐 乘 增设 增加 撤销 取消 恢复 调整 \
    延长 开通 缩短 新开 方便 连接 直达 开往 前往 来到 路过 改为 改至 改走 改到 购买 购买了 挨着 隔壁 属于 隶属 涉及 针对 \
    就是 作为 成为 叫做 名为 原来 曾经 之前 昨天 今天 明天 只有 仅 大约 距离 按照 根据 依据 凭 直到 一直 整治 改造 施工 \
    占用 堵塞 污染 物业费 老板 员工 工作人员 司机 家长 学生 老师 村民 群众 百姓 老百姓 网友 记者 患者 病人 消费者 客户 \
    车主 房东 租客 商户 店主 工人 民工 农民 农民工 儿子 女儿 父亲 母亲 孩子 小孩 丈夫 妻子 老公 老婆 本人 自己 一家 一条 \
    一座 一间 一所 一处 一块 一片 两家 两条 多家 多条 这家 那家 这条 那条 座 块 片 次 年 月 日 号 点 分 楼上 楼下 \
    旁的 拖欠 地 得 着 过 即 则 若 却 仍 便 最 更 正 别 没 咱 俺 商品房 本学期 学期 房屋 房子 住房 车辆 公交车 \
    电动车 汽车 货车 大货车 渣土车 时候 期间 门面 电梯 物管 方向 路线 线路 公交线路 公交 地铁 轻轨 政府 当地政府 部门 \
    领导们 书记 县长 市长 局长 镇长 校长 院长 主任 经理 教师 医生 护士 民警 警察 交警 城管 保安 女士 先生 开车 上班 下班 \
    上学 放学 买房 购房 租房 停车 违停 噪音 扰民 垃圾 油烟 漏水 停水 停电 工资 请求 恳请 强烈要求 强烈 反应 委托 承包 \
    承建 负责 合并 途中 位置 地址 地点 名字 名称 性质 强制 拒绝 导致 造成 影响 存在 出现 发生 发现 看到 听说 得知 认为 \
    觉得 打算 准备 开始 结束 继续 停止"
}

literals! {
    /// Words that end like a name but are no names.
    COMMON_NOUNS,
    "学区 城区 市区 郊区 山区 辖区 灾区 街区 居民区 住宅区 生活区 特区 老区 县区 本省 全省 我省 本市 全市 我市 本县 全县 我县 本区 全区 我区 本镇 我镇 本乡 我乡 本村 我村 全村 城市 乡镇 村镇 集镇 乡村 农村 城乡 村庄 公路 马路 \
     道路 铁路 线路 电路 思路 出路 大路 小路 后路 门市 楼市 股市 上市 早市 夜市 河道 水沟 排水沟 下水道 人行道 车道 通道 隧道口 住宅小区 该小区 我小区 小区 本公司 该公司 我公司 分公司 子公司 总公司 母公司 各公司 本校 该校 我校 学校 \
     医院 公司 银行 工厂 物业公司 开发公司 家里 这里 那里 哪里 城里 村里 夜里 心里 手里 眼里 县里 市里 镇里 乡里 区里 店里 屋里 院里 校园 幼儿园 公园 花园 家园 菜园 果园 庭院 法院 政府 学府 走路 修路 绕路 让路 上路 问路 迷路 半路 一路 网路 套路 \
     施工单位 集团 商场 超市 市场 广场 酒店 宾馆 饭店 餐厅 车站 火车站 汽车站 地铁站 公交站 站 总站 小区 社区 街道 村 镇 乡 大桥 桥 江 河 湖 山 岛 火山 江山 大厦 大楼 公寓 宿舍 别墅 小学 中学 大学 高中 初中 局 厂 所 派出所 大队 中队 支队 物业 \
     当局 邮局 结局 格局 布局 全局 到站 进站 出站 网站 本站 下一站 车队 部队 排队 插队 商行 同行 步行 居委会 村委会 委员会 管委会 协会 机会 社会 大会 开会 业委会 业主委员会 消防站 垃圾站 加油站 停车场 工业园 产业园 工业区 开发区 新区 居住区 \
     大街 大道 街 巷 胡同 路 路口 路段 高速 高速公路 国道 省道 立交 立交桥 隧道 学院 附中 附小 公园里 老街 步行街 商业街 十字路 岔路 岔路口 十字路口 三岔路口 盲道 车路 泥路 土路 水路 陆路 弯路 退路 生路 前路 歧路 老路 支路 主路 辅路 绿道 栈道 管道 渠道 频道 赛道 弯道 坡道 匝道 跑道 步道 便道 小巷 小街 大巷 门店 当地政府 市政府 区政府 县政府 省政府 镇政府 乡政府 新政府 火车 名字里 城 新城 商城 园 苑 府 湾 郡 庭 里 坊 轩 阁 安置房 安置区 廉租房 公租房 房地产公司 开发商 城中村 新村 山庄 农庄 \
     天桥 人行天桥 码头 机场 水库 沙滩 河沟 臭水沟 水渠 沟渠 水系 内河 支河 田园 绿地 农场 林场 渔场 球场 操场 现场 批发市场 农贸市场 菜市场 门诊 诊所 卫生院 卫生所 卫生室 信用社 合作社 化工厂 砖厂 加工厂 养殖场 养猪场 搅拌站 变电站 服务中心 \
     管理处 管理局 分局 研究所 设计院 事务所 经营部 专卖店 旗舰店 美容院 健身房 会所 网吧 培训机构 培训学校 培训中心 驾校 党校 技校 职校 校区 教育局 单位 家属院 大院 宿舍楼 综合楼 写字楼 寺庙 庙 寺 港 沟 溪 渠 屯 庄 寨 弄 家庭 开庭 法庭 下乡 返乡 家乡 故乡 老乡 同乡 大厅 客厅 餐厅 展厅 歌厅 省厅 公里 长城 心城 全城 进城 县城 古城 京城 倾城 国里 网里 上高速 下高速 走高速 公交线路 线路图 市中心 本单位 总公司 购物中心 公交场站 场站"
}

/// Words before an ending that do not name anything.
pub(super) const VAGUE_WORDS: &str = "政府 居民 业主 物业 市政 有关 相关 职能 小区 我们 本 该 各 农村 乡村 城市 社会 国家 中国 人民 公共 基层 地方 主管 行政 执法 政法 监管 监督 管理 部门 政策 法律 民 公 大 小 老 新 两 三 一 家 房 马 道 水 出 下 上 外 内 中 县 区 市 镇 \
     乡 省 村 全 半 主 网 电 手 高 低 长 短 左 右 东 西 南 北 走 回 过 修 铁 线 思 套 门 后 前 进 退 弯 直 无 有 每 停 堵 开 生 活 居住 住宅 商品 自建 违章 违法 老旧 房地产 开发 建筑 建设 施工 工程 装修 培训 事业 企业 民营 私人 国有 上市 责任 股份 \
     有限 用人 本人 有限责任 股份有限 多家 一家 这家 那家 心 地下 停车 垃圾 污水 生活 交通 公交 汽车 火车 地铁 出租 共享 单车 电动 安全 教育 环境 医疗 文化 经济 科技 金融 住房 土地 自然 资源 职能局 商业 工业 农业 旅游 服务 保险 快递 物流 外卖 \
     装饰 劳务 建材 食品 环保 环卫 公安 城管 交警 消防 税务 工商 民政 规划 国土 水务 水利 林业 财政 审计 人社 社保 卫生 卫计 质监 药监 畜牧 交通运输 住建 房管 国资 燃气 自来水 供电 供水 供热 热力 电力 烟草 邮政 信访 街道 社区 村 附属 中心 性质 \
     公办 民办 私立 公立 九年制 重点 普通 职业 对口 辅导 托管 补习 早教 小 幼儿 老年 妇幼 精神病 口腔 整形 美容 宠物 综合 专科 县级 市级 省级 三甲 农贸 批发 二手 大型 露天 中型 小型 临时 农产品 水产 花鸟 古玩 室内 市民 休闲 健身 体育 运动 \
     高速 国际 世界 时代 商务 商住 棚户 拆迁 回迁 还建 安置 保障 拆除 封闭 半封闭 开放式 无物业 老 旧 新建 在建 高档 豪华 花园式 人防 地质 防洪 排污 排水 灌溉 黑臭 臭 饮用 工地 项目 楼盘 承建 监理 设计 中介 担保 投资 贷款 网络 软件 信息 技术 人力 人力资源 \
     运营 客运 货运 公交车 长途 高铁 动车 轻轨 轨道 始发 终点 换乘 双向 单向 下行 上行 跨江 跨海 人行 立交 过街 景观 沿街 临街 单行 双向 主干 城市 回家 上学 上班 下班 必经 致富 维权 出行 通行 求学 人生 进村 入户 机耕 产业 传播 传媒 人才 城乡 城乡建设 几大 个别 几大 众多 各大 研发 收购 废品 木材 交汇 交叉 岔 十字 三岔 丁字 普惠 新型 大型 当地 本地 外地 各地 乡间 泥巴 水泥 沥青 断头 必经 内部 规划 市政 环城 绕城 辅 主 支 村级 县道 乡道";

literals! {
    /// Words for roads. Even with another word before them they name no road.
    COMMON_ROADS,
    "公路 马路 道路 铁路 线路 电路 思路 出路 大路 小路 后路 车道 通道 街道"
}

literals! {
    /// Words before an ending that do not name anything.
    VAGUE,
    VAGUE_WORDS
}

literals! {
    /// Verbs and adjectives that are used in names of roads, estates and companies.
    NAMESAKES,
    "人民 建设 解放 和平 友谊 胜利 团结 民主 幸福 健康 光明 朝阳 振兴 发展 迎宾 科技 科学 科创 创新 创业 学府 文化 教育 体育 工业 商业 园区 高新 开发 产业 物流 理想 港口 机场 滨河 滨江 滨湖 滨海 沿江 沿河 环城 环湖 环山 环保 \
     招商 中信 保利 和谐 富强 文明 自由 平等 长安 永安 永和 平安 兴隆 兴旺 繁荣 前进 跃进 向阳 红旗 东风 五一 八一 国庆 实验 中心 第一 第二 第三 投资 旅游 服务 管理 生产 制造 运输 经营 销售 贸易 置业 实业 进出口 融信 融创 万达 恒大 碧桂园 \
     建发 世茂 绿地 绿城 龙湖 金地 首创 远洋 华润 中海 富力 奥园 融侨 群升 阳光 锦绣 江山 翡翠 凤凰 玫瑰 香樟 梧桐 香格里拉 时代 未来 天下 国际 世纪 金色 蓝色 阳光 湖畔 江畔 水岸 上海 北京 东方 西部 南方 北方 华夏 中华 华侨 侨乡"
}

literals! {
    /// Endings that are also recognised at the start of a longer word of the dictionary: 小区业主.
    HEADS,
    "小区 社区 公司 集团 花园 医院 大道 广场 公园 学校 中学 小学 幼儿园 路 街 村 大厦 街道 桥 站 河"
}

literals! {
    /// Ends of such longer words.
    TAILS,
    "处 下 业主 物业 居民 村民 内 里 上 口 段 边 面 灯 沿 牌 况 员工 门口 东 西 南 北 东侧 西侧 南侧 北侧 周边 附近 路口 门前 旁 旁边 对面 老师 学生 领导 外 住户 食堂 宿舍 操场 水 岸"
}

literals! {
    /// Endings of shops and hotels. Their names consist of any nouns.
    SHOPS,
    "酒店 宾馆 饭店 餐厅 超市 商场 店"
}

literals! {
    /// Words just before a name of unknown characters: 加站东外斜街.
    LEADING_WORDS,
    "加站 设站 增站 停靠 改走 绕行"
}

/// Verbs and prepositions of one character that stand just before a name of unknown characters: 走京深路.
pub(super) const LEADING: &str = "修补经走靠设开可到至往能读用将把去从来归于为向由过途住进出离改绕沿接抵赴";

/// Characters that form a word with 路: 路灯, 路面.
pub(super) const BEHIND_ROAD: &str = "灯面口边段沿牌况基障";

/// Directions and sides, which distinguish objects with the same name.
pub(super) const SIDES: &str = "东西南北中上下前后大小新老";
