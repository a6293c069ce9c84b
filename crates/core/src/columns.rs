//! Finds the meaning of a column or member by its name: which column of a register contains the title, the content, the petitioner or the
//! time.
//!
//! All readers of records use this module: the readers of tables, databases and JSON lines, and the service for the first record of a
//! collection. A name is compared in its normal form, so that spaces, capitals, traditional characters and remarks in brackets do not
//! count. A name is usual as a whole (`诉求内容`), or it has a usual ending (`…内容`). A usual name is better than a usual ending.

use std::collections::HashSet;
use std::sync::LazyLock;

use crate::collection::{Field, Role, Settings};
use crate::text::normalise::Normaliser;

/// The meaning of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ColumnKind {
    /// The id of the record.
    Id,
    /// The title of the letter.
    Title,
    /// The text of the letter.
    Content,
    /// The name of the petitioner.
    Petitioner,
    /// The telephone number of the petitioner.
    Phone,
    /// The number of the petitioner's identity card.
    IdentityNumber,
    /// The time when the letter was submitted.
    Time,
    /// The category of the matter.
    Category,
    /// The status of the matter at the office.
    Status,
    /// The unit that handles the matter.
    Unit,
    /// The reply to the petitioner.
    Reply,
}

impl ColumnKind {
    /// All kinds, in the order in which columns are chosen for them.
    pub const ALL: [Self; 11] = [
        Self::Id,
        Self::Title,
        Self::Content,
        Self::Petitioner,
        Self::Phone,
        Self::IdentityNumber,
        Self::Time,
        Self::Category,
        Self::Status,
        Self::Unit,
        Self::Reply,
    ];

    /// Returns the role of a field of this kind; `None` for the id, which is not a field.
    pub fn role(self) -> Option<Role> {
        match self {
            Self::Id => None,
            Self::Title | Self::Content => Some(Role::Text),
            Self::Petitioner | Self::Phone | Self::IdentityNumber => Some(Role::Identity),
            Self::Time => Some(Role::Time),
            Self::Category => Some(Role::Category),
            Self::Status => Some(Role::Status),
            Self::Unit => Some(Role::Unit),
            Self::Reply => Some(Role::Reply),
        }
    }
}

/// The names and endings of one kind.
struct Usual {
    kind: ColumnKind,
    /// Whole names in normal form, the clearest name first.
    names: Vec<&'static str>,
    /// Endings of Chinese names, the clearest ending first.
    endings: Vec<&'static str>,
    /// Last words of English names.
    last_words: Vec<&'static str>,
    /// Parts that exclude a name: if the name contains one of them, its ending does not count for this kind.
    except: Vec<&'static str>,
}

/// Parts of names of columns that the office fills in while it handles a letter.
const HANDLING: &str = "办 处理 处置 落实 完成 回访 回复 答复 反馈 满意 整改 审 附件 备注 状态 编号 reply answer \
    result response remark";

/// The columns of the registers and exports of offices. If a table has several ids, times or people, the names for the id, time and person
/// of the letter itself come first.
static USUAL: LazyLock<[Usual; 11]> = LazyLock::new(|| {
    [
        Usual {
            kind: ColumnKind::Id,
            names: words(
                "编号 id 信访编号 信访件编号 工单编号 工单号 受理编号 诉求编号 登记编号 来信编号 投诉编号 \
                举报编号 留言编号 信件编号 事件编号 事项编号 案件编号 件号 流水号 工单流水号 业务流水号 受理单号 \
                工单单号 单号 no number orderno ordernumber caseno casenumber orderid caseid ticketid recordid",
            ),
            endings: words(""),
            last_words: words(""),
            except: words(""),
        },
        Usual {
            kind: ColumnKind::Title,
            names: words(
                "标题 诉求标题 信访标题 工单标题 留言标题 来信标题 投诉标题 事项标题 留言主题 主题 题目 \
                事项名称 title subject headline",
            ),
            endings: words("标题 主题 题目"),
            last_words: words("title subject headline"),
            except: words(HANDLING),
        },
        Usual {
            kind: ColumnKind::Content,
            names: words(
                "内容 诉求内容 信访内容 工单内容 留言内容 来信内容 投诉内容 举报内容 信件内容 来电内容 \
                反映内容 问题内容 事项内容 事件内容 留言详情 诉求详情 诉求描述 问题描述 事件描述 工单描述 市民诉求 \
                群众诉求 主要诉求 信访事项 反映事项 诉求事项 主要内容 反映问题 内容摘要 详情 描述 正文 诉求 事由 \
                content text body description message complaint",
            ),
            endings: words("内容 诉求 描述 详情 正文 详述 事项 事由 经过 反映问题 情况 问题说明 情况说明"),
            last_words: words("content contents text body description desc detail details message"),
            except: words(HANDLING),
        },
        Usual {
            kind: ColumnKind::Petitioner,
            names: words(
                "来电人 信访人 来信人 来访人 诉求人 反映人 投诉人 举报人 留言人 留言用户 申请人 写信人 发件人 \
                报事人 求助人 建议人 咨询人 市民姓名 群众姓名 客户姓名 联系人 姓名 user name username petitioner \
                complainant sender author",
            ),
            endings: words(""),
            last_words: words("petitioner complainant"),
            except: words(""),
        },
        Usual {
            kind: ColumnKind::Phone,
            names: words(
                "手机号 手机号码 手机 联系电话 联系方式 来电号码 主叫号码 来电电话 电话 电话号码 phone mobile \
                tel telephone phonenumber mobilephone",
            ),
            endings: words("手机号 手机号码 手机 联系电话 联系方式 来电号码 电话 电话号码"),
            last_words: words("phone mobile tel telephone"),
            except: words("办 部门 单位 被 回访 座机 物业 企业 公司"),
        },
        Usual {
            kind: ColumnKind::IdentityNumber,
            names: words("身份证号 身份证号码 身份证 证件号码 证件号 公民身份号码 idcard idnumber"),
            endings: words("身份证号 身份证号码 证件号码 证件号"),
            last_words: words(""),
            except: words("办 被 企业 单位"),
        },
        Usual {
            kind: ColumnKind::Time,
            names: words(
                "来电时间 登记时间 信访时间 信访日期 来信时间 来信日期 来访时间 来访日期 留言时间 受理时间 \
                诉求时间 投诉时间 举报时间 登记日期 受理日期 提交时间 创建时间 时间 日期 time date createtime \
                createdate createdat createdtime submittime submittedat registertime datetime timestamp",
            ),
            endings: words("时间 日期"),
            last_words: words("time date"),
            except: words(
                "办 处理 处置 落实 完成 回访 回复 答复 反馈 满意 整改 审 更新 修改 结束 截止 截至 到期 时限 \
                期限 出生 生日 update modif end due birth close reply answer finish expire delete",
            ),
        },
        Usual {
            kind: ColumnKind::Category,
            names: words(
                "类别 分类 类型 问题分类 问题类别 问题类型 诉求分类 诉求类别 诉求类型 事项分类 事项类别 \
                信访类别 内容分类 工单分类 工单类型 category type class",
            ),
            endings: words("分类 类别 类型"),
            last_words: words("category"),
            except: words("证件 人员 附件 单位 办结 回复 来电人 信访人"),
        },
        Usual {
            kind: ColumnKind::Status,
            names: words("状态 办理状态 工单状态 处理状态 办件状态 信访状态 当前状态 办结状态 是否办结 status state"),
            endings: words("状态"),
            last_words: words("status"),
            except: words("婚姻 健康 附件"),
        },
        Usual {
            kind: ColumnKind::Unit,
            names: words(
                "承办单位 办理单位 主办单位 责任单位 受理单位 处理单位 处置单位 转办单位 交办单位 经办单位 \
                承办部门 办理部门 主办部门 责任部门 受理部门 处理部门 处置部门 办理机构 unit department agency",
            ),
            endings: words("承办单位 办理单位 主办单位 责任单位 承办部门 办理部门 主办部门 责任部门"),
            last_words: words("department"),
            except: words("被"),
        },
        Usual {
            kind: ColumnKind::Reply,
            names: words(
                "答复内容 回复内容 答复意见 办理意见 答复 回复 办理结果 处理结果 处置结果 办理情况 处理情况 \
                答复情况 回复情况 办结意见 反馈内容 办理反馈 reply answer response result",
            ),
            endings: words("答复内容 回复内容 答复意见 办理结果 处理结果 办理情况 处理情况"),
            last_words: words("reply"),
            except: words("满意 时间 审"),
        },
    ]
});

/// Returns the words of a list.
fn words(list: &'static str) -> Vec<&'static str> {
    list.split_whitespace().collect()
}

/// Endings of the name of a column that holds the name of a person: 来电人姓名.
const NAME_ENDINGS: [&str; 3] = ["姓名", "名称", "名字"];

/// Returns the meaning of a column of this name. O(length of the name).
pub fn kind_of(name: &str) -> Option<ColumnKind> {
    ranked(name).map(|ranked| ranked.kind)
}

/// True if a name is usual as a whole. O(length of the name).
pub fn is_usual_name(name: &str) -> bool {
    let plain = plain(name);
    USUAL.iter().any(|usual| usual.whole(&plain).is_some())
}

/// Returns the role that the name of a member suggests, but only if values of this role are only shown.
pub fn shown_role(name: &str) -> Option<Role> {
    kind_of(name).and_then(ColumnKind::role).filter(|role| Role::SHOWN.contains(role))
}

/// A meaning with a measure of its certainty.
struct RankedKind {
    kind: ColumnKind,
    /// The rank of the name among the names of its kind. A smaller rank is better.
    rank: usize,
}

fn ranked(name: &str) -> Option<RankedKind> {
    // The header has two rows, which `/` separates. The time in 办理情况/时间 is not the time of the letter.
    if let Some((heading, name)) = name.rsplit_once('/').filter(|(_, name)| !name.is_empty()) {
        let heading = plain(heading);
        return ranked(name).filter(|_| !HANDLING.split_whitespace().any(|part| heading.contains(part)));
    }
    let plain = plain(name);
    let whole = USUAL.iter().find_map(|usual| usual.whole(&plain));
    whole.or_else(|| of_person(&plain)).or_else(|| {
        let last = last_word(name);
        USUAL.iter().find_map(|usual| usual.ending(&plain, last.as_deref()))
    })
}

/// Recognises names such as 来电人姓名, which mean the same as 来电人.
fn of_person(plain: &str) -> Option<RankedKind> {
    let person = NAME_ENDINGS.iter().find_map(|ending| plain.strip_suffix(ending))?;
    let people = USUAL.iter().find(|usual| usual.kind == ColumnKind::Petitioner)?;
    let rank = people.names.iter().position(|known| *known == person && known.ends_with('人'))?;
    Some(RankedKind { kind: ColumnKind::Petitioner, rank })
}

impl Usual {
    /// Returns the meaning of a name in normal form that is usual as a whole.
    fn whole(&self, plain: &str) -> Option<RankedKind> {
        let rank = self.names.iter().position(|known| *known == plain)?;
        Some(RankedKind { kind: self.kind, rank })
    }

    /// Returns the meaning of a name in normal form that has a usual ending, or has this last English word.
    fn ending(&self, plain: &str, last_word: Option<&str>) -> Option<RankedKind> {
        if self.except.iter().any(|part| plain.contains(part)) {
            return None;
        }
        let ending = self.endings.iter().position(|ending| plain.ends_with(ending));
        let rank = ending.or_else(|| self.last_words.iter().position(|word| Some(*word) == last_word))?;
        Some(RankedKind { kind: self.kind, rank: self.names.len() + rank })
    }
}

/// Returns the meanings of the columns of one table. A meaning belongs to at most one column: the column with the best name for it.
/// O(length).
pub fn kinds_of<'a>(names: impl IntoIterator<Item = &'a str>) -> Vec<Option<ColumnKind>> {
    let ranked: Vec<Option<RankedKind>> = names.into_iter().map(ranked).collect();
    let mut kinds = vec![None; ranked.len()];
    for kind in ColumnKind::ALL {
        let columns = ranked.iter().enumerate().filter_map(|(at, found)| Some((at, found.as_ref()?)));
        let best = columns.filter(|(_, found)| found.kind == kind).min_by_key(|(_, found)| found.rank);
        if let Some((at, _)) = best {
            kinds[at] = Some(kind);
        }
    }
    kinds
}

/// Returns a name in the form in which names are compared.
pub fn plain(name: &str) -> String {
    let normal = Normaliser::new(true).normalise(name);
    // Removes a remark in brackets after the name: 诉求内容(必填).
    let end = normal.find(['(', '[', '【', '<']).filter(|at| *at > 0).unwrap_or(normal.len());
    normal[..end].chars().filter(|sign| !sign.is_whitespace() && !"*:_-#.".contains(*sign)).collect()
}

/// Returns the last word of an English name: `time` of `create_time`, `createTime` and `Create time`.
fn last_word(name: &str) -> Option<String> {
    let word = name.trim().rsplit(|sign: char| !sign.is_ascii_alphanumeric()).next()?;
    let begin = word
        .rfind(|sign: char| sign.is_ascii_uppercase())
        .filter(|_| word.contains(|sign: char| sign.is_ascii_lowercase()));
    let word = word[begin.unwrap_or_default()..].to_ascii_lowercase();
    (!word.is_empty()).then_some(word)
}

/// Returns the preset `default`, with an additional field for each of these members that has a meaning and no field
/// yet. A collection that is created by its first record gets these settings.
pub fn settings_for<'a>(members: impl IntoIterator<Item = &'a str>) -> Settings {
    let mut settings = Settings::default();
    let members: Vec<&str> = members.into_iter().collect();
    let known: HashSet<ColumnKind> =
        members.iter().filter(|name| has_field(&settings, name)).filter_map(|name| kind_of(name)).collect();
    for (name, kind) in members.iter().zip(kinds_of(members.iter().copied())) {
        let Some(kind) = kind.filter(|kind| !known.contains(kind)) else { continue };
        let Some(role) = kind.role().filter(|_| !has_field(&settings, name)) else { continue };
        settings.fields.push(Field::new(*name, role));
    }
    settings
}

fn has_field(settings: &Settings, name: &str) -> bool {
    settings.fields.iter().any(|field| field.name == name)
}

/// The reason why records cannot be compared: no member or column contains their text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContentMissing {
    /// The names that were found.
    pub names: Vec<String>,
}

/// Maximum number of names in a message.
const MOST_LISTED: usize = 40;

impl ContentMissing {
    /// Returns the names, separated by commas.
    pub fn list(&self) -> String {
        let listed = self.names.iter().take(MOST_LISTED).map(String::as_str).collect::<Vec<_>>().join(", ");
        match self.names.len().saturating_sub(MOST_LISTED) {
            0 => listed,
            more => format!("{listed} and {more} more"),
        }
    }
}

/// Checks that a table, or the first record of a collection, has a member that contains the text of a letter. `names` are the names of the
/// members as the collection receives them. A title alone is enough if every other name has a known meaning.
///
/// # Errors
/// [`ContentMissing`] if there is no such member.
pub fn check_content<'a>(names: impl IntoIterator<Item = &'a str>, settings: &Settings) -> Result<(), ContentMissing> {
    let names: Vec<&str> = names.into_iter().collect();
    let members = ContentMembers::of(&names, settings);
    if members.has_content || (members.has_title && members.others.iter().all(|name| is_known_as_other(name))) {
        return Ok(());
    }
    Err(ContentMissing { names: names.into_iter().map(str::to_owned).collect() })
}

/// True if a name has a known meaning that is not the content.
fn is_known_as_other(name: &str) -> bool {
    kind_of(name).is_some_and(|kind| kind != ColumnKind::Content)
}

/// Returns the member that seems to contain the text of a letter although it is not a field of the settings. `None` if the row has another
/// member that is content.
pub fn overlooked_content<'a>(names: impl IntoIterator<Item = &'a str>, settings: &Settings) -> Option<&'a str> {
    let names: Vec<&str> = names.into_iter().collect();
    let mut others = names.iter().filter(|name| !has_field(settings, name));
    // Most rows have no such member. The rest of the function is then skipped.
    let other = *others.find(|name| kind_of(name) == Some(ColumnKind::Content))?;
    (!ContentMembers::of(&names, settings).has_content).then_some(other)
}

/// The names of members by their part in the content.
struct ContentMembers<'a> {
    has_content: bool,
    has_title: bool,
    /// Names that belong to no field of the settings.
    others: Vec<&'a str>,
}

impl<'a> ContentMembers<'a> {
    fn of(names: &[&'a str], settings: &Settings) -> Self {
        let fields: Vec<(&Field, bool)> = settings.fields.iter().zip(settings.titles()).collect();
        let has_text = fields.iter().any(|(field, is_title)| field.role == Role::Text && !is_title);
        let mut members = Self { has_content: false, has_title: false, others: Vec::new() };
        for name in names {
            match fields.iter().find(|(field, _)| field.name == *name) {
                None => members.others.push(name),
                Some((field, false)) if field.role == Role::Text => members.has_content = true,
                Some((field, is_title)) if matches!(field.role, Role::Text | Role::Whole | Role::Url) => {
                    members.has_content |= !has_text;
                    members.has_title |= *is_title;
                }
                Some(_) => (),
            }
        }
        members
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn all(kind: ColumnKind, names: &[&str]) {
        for name in names {
            assert_eq!(kind_of(name), Some(kind), "{name}");
        }
    }

    #[test]
    fn usual_names_and_endings_have_a_meaning() {
        all(
            ColumnKind::Content,
            &[
                "投诉内容",
                "市民诉求",
                "工单描述",
                "事件描述",
                "问题内容",
                "举报内容",
                "诉求详情",
                "信件内容",
                "反映事项",
                "內容",
                "訴求內容",
                "description",
                "Content",
                "complaint_content",
                "ComplaintText",
                "problem-details",
                "网友诉求",
                "具体情况",
                "事情经过",
                "咨询详情",
                "诉求内容（必填）",
                " 内 容 ",
                "来信正文*",
            ],
        );
        all(ColumnKind::Title, &["投诉标题", "事项标题", "標題", "信件主题", "Subject", "letterTitle", "标题："]);
        all(
            ColumnKind::Time,
            &["推送时间", "发生时间", "create_time", "createTime", "created_at", "派单日期", "推送時間", "Submit Date"],
        );
        all(
            ColumnKind::Petitioner,
            &["来电人信息/姓名", "来电人姓名", "投诉人", "信訪人", "complainant", "举报人姓名"],
        );
        all(ColumnKind::Phone, &["诉求人手机号", "联系电话", "mobile_phone", "Phone"]);
        all(ColumnKind::IdentityNumber, &["身份证号", "信访人身份证号码"]);
        all(ColumnKind::Category, &["问题分类", "诉求类型", "一级分类"]);
        all(ColumnKind::Status, &["办理状态", "status", "是否办结"]);
        all(ColumnKind::Unit, &["承办单位", "主办部门"]);
        all(ColumnKind::Reply, &["答复内容", "办理结果", "办理情况", "official_reply"]);
        all(ColumnKind::Id, &["ID", "工单编号", "工單編號", "order_no", "投诉编号"]);
    }

    #[test]
    fn columns_of_the_handling_and_of_other_things_have_none_of_these_meanings() {
        let names = [
            "满意度",
            "回复时间",
            "办结时间",
            "更新时间",
            "update_time",
            "备注",
            "出生日期",
            "满意情况",
            "context",
            "subtitle",
            "candidate",
            "runtime",
            "被投诉人",
            "承办人",
            "身份证编号",
            "问题点位",
            "审核事项",
            "",
            "附件内容",
            "办理信息/时间",
            "承办人电话",
            "证件类型",
            "工作单位",
        ];
        for name in names {
            assert_eq!(kind_of(name), None, "{name}");
        }
    }

    #[test]
    fn the_best_of_several_columns_gets_the_meaning() {
        let kinds = kinds_of(["推送时间", "来电时间", "情况说明", "诉求内容", "序号", "工单编号"]);
        let expected = [None, Some(ColumnKind::Time), None, Some(ColumnKind::Content), None, Some(ColumnKind::Id)];
        assert_eq!(kinds, expected);
    }

    #[test]
    fn the_first_record_decides_the_fields() {
        let settings =
            settings_for(["id", "工单编号", "诉求标题", "市民诉求", "推送时间", "承办人", "承办单位", "诉求人手机号"]);
        let added: Vec<(&str, Role)> = settings.fields[Settings::default().fields.len()..]
            .iter()
            .map(|field| (field.name.as_str(), field.role))
            .collect();
        assert_eq!(
            added,
            [
                ("诉求标题", Role::Text),
                ("市民诉求", Role::Text),
                ("推送时间", Role::Time),
                ("承办单位", Role::Unit),
                ("诉求人手机号", Role::Identity)
            ]
        );
        let titles: Vec<bool> = settings.titles()[Settings::default().fields.len()..].to_vec();
        assert_eq!(titles, [true, false, false, false, false]);
        assert_eq!(settings_for(["title", "content", "内容摘要"]), Settings::default(), "the field content is there");
    }

    #[test]
    fn members_without_content_are_named() {
        assert_eq!(check(&["id", "content"]), Ok(()));
        assert_eq!(check(&["title", "姓名"]), Ok(()), "a letter may have a title alone");
        assert_eq!(check(&["title", "材料", "a"]).map_err(|missing| missing.list()), Err("title, 材料, a".into()));
        assert!(check(&[]).is_err());
        let settings = Settings::default();
        assert_eq!(overlooked_content(["title", "投诉内容"], &settings), Some("投诉内容"));
        assert_eq!(overlooked_content(["content", "投诉内容"], &settings), None);
        assert_eq!(overlooked_content(["title", "备注"], &settings), None);
    }

    fn check(names: &[&str]) -> Result<(), ContentMissing> {
        check_content(names.iter().copied(), &settings_for(names.iter().copied()))
    }
}
