//! The text that operators write around a matter: the beginning and the end of an order, additions, and questions about an earlier order.
//! All texts were written for this generator.

/// The beginning and the end of an order: the habit of one desk.
pub(super) const DESKS: &[(&str, &str)] = &[
    ("来电人反映：", "请{局}[尽快|及时]核实处理，并于{时限}内回复来电人。"),
    ("市民致电称，", "（转{局}，{时限}内联系来电人并反馈办理情况）"),
    ("【热线记录】诉求人表示：", "请承办单位[按时限|在{时限}内]办结并[电话|短信]回复诉求人，谢谢！"),
    ("群众拨打热线反映，", "望{局}[派人|安排人员][核实|核查]后给予答复。"),
    ("接市民电话：", "请{局}阅办。"),
    ("来电人（{来电人}）称，", "来电人[要求|希望]{局}[核实|调查]处理并回电。[处理时限{时限}。|]"),
    ("您好！", "希望[有关|相关]部门[过问|重视]，谢谢。"),
    ("网友留言：", "盼[复|回复]。"),
    ("诉求内容：", "承办要求：{局}收单后{时限}内与诉求人联系，核实情况，依规办理，如实反馈。"),
    ("市民来电表示，", "[烦请|请]{局}在{时限}内[联系|致电]市民核实，[按规定办理|依规处置]后[回单|反馈中心]。"),
    ("", ""),
    ("", "[请处理|请协调|请帮助解决]。"),
    ("热线{当日}受理：", "现交{局}办理，办理结果请于{时限}内报中心备案。"),
    ("来电诉求：", "（回访要求：是；办理时限：{时限}；承办：{局}）"),
];

/// The beginning and the end of an order that asks a question.
pub(super) const ENQUIRY_DESKS: &[(&str, &str)] = &[
    ("来电人咨询：", "。请{局}解答。"),
    ("市民致电咨询：", "。请{局}于{时限}内回复来电人。"),
    ("咨询：", "。"),
    ("您好，", "，谢谢。"),
    ("【热线记录】诉求人咨询：", "。请承办单位{时限}内电话回复诉求人，谢谢！"),
    ("来电人来电咨询，", "，[望|请]告知。"),
    ("咨询类：", "（转{局}解答）"),
    ("", ""),
];

/// Additional remarks of some orders.
pub(super) const REMARKS: &[&str] = &[
    "来电人表示{前日}曾拨打热线，[至今|目前]未见[人员联系|进展]。",
    "其[认为|觉得]这样不合理，[要求|希望]给出[书面|明确]说法。",
    "来电人表示此前已[向社区|当面]反映，[没有|未]得到处理。",
    "来电人[愿意|可]提供[照片|材料]。",
    "来电人情绪[激动|较急]，请[尽快|优先]回复。",
];

/// Additional remarks of orders about a matter that is visible at a place.
pub(super) const PLACE_REMARKS: &[&str] = &[
    "其称周边[住户|居民]对此[意见较大|均有意见]。",
    "[家中有老人和小孩|来往的老人小孩多]，存在[安全|一定]隐患。",
    "该情况已持续{天}天[左右|以上]。",
    "来电人[愿意|可]提供[照片|视频]，并[可以|愿意]带路。",
    "[社区|居委会]答复[不归其管理|需由上级协调]，来电人对此不[认可|满意]。",
];

/// The beginning and the end of an order that asks about an earlier one.
pub(super) const CHASES: &[(&str, &str)] = &[
    ("来电人就[前期|之前]工单《{题}》再次来电催办：", "[目前|截至来电时]尚未[收到回复|有人联系]，请{局}尽快办理。"),
    ("催单。原诉求《{题}》，内容：", "来电人对办理进度不满，请加快处理。"),
    ("{局}反馈工单《{题}》需补充信息。原工单内容：", "现补充后重新派单。"),
];

/// The beginning and the end of an order that asks about an earlier question.
pub(super) const ENQUIRY_CHASES: &[(&str, &str)] = &[
    ("来电人曾咨询：", "。[至今|目前]未收到回复，请{局}尽快[解答|联系]。"),
    ("[再次|又一次]来电询问：", "。来电人表示[尚无人回电|等待较久]。"),
];

/// Titles around a subject.
pub(super) const TITLES: &[&str] = &["关于{题}的问题", "关于{题}的问题", "反映{题}", "{题}", "{题}的诉求"];

/// Titles around the subject of a question.
pub(super) const ENQUIRY_TITLES: &[&str] = &["关于咨询{题}的问题", "咨询{题}", "{题}"];

/// Words, and the wrong words that people type instead; no names, no numbers.
pub(super) const SLIPS: &[(&str, &str)] = &[
    ("反映", "反应"),
    ("在", "再"),
    ("已经", "以经"),
    ("已", "己"),
    ("尽快", "尽块"),
    ("影响", "影向"),
    ("请", "清"),
    ("辆", "俩"),
    ("处理", "处里"),
    ("严重", "严种"),
    ("堵住", "赌住"),
    ("需要", "须要"),
    ("账", "帐"),
    ("核实", "核时"),
    ("附近", "付近"),
    ("及时", "即时"),
    ("联系", "连系"),
    ("，", ","),
    ("：", ":"),
    ("。", "."),
    ("来电人", "来电 人"),
];
