//! What a column is, guessed by its name.

use doppel_core::collection::{Role, Settings};

/// What a record takes from a column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// Its id.
    Id,
    /// This field.
    Field(String),
    /// A field of the column's own name, which is stored and not compared.
    Own,
    /// Nothing.
    Unused,
}

impl Target {
    /// What the value of a column of this name is called in a record.
    pub fn name<'a>(&'a self, column: &'a str) -> Option<&'a str> {
        match self {
            Self::Id => Some("id"),
            Self::Field(name) => Some(name),
            Self::Own => Some(column),
            Self::Unused => None,
        }
    }
}

/// What usual names of columns stand for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Id,
    Title,
    Content,
    Petitioner,
    Time,
}

/// Names of columns in the registers and exports of offices; of several kinds of numbers, times and people those of the letter itself.
const USUAL: [(Kind, &[&str]); 5] = [
    (
        Kind::Id,
        &[
            "编号",
            "id",
            "信访编号",
            "信访件编号",
            "工单编号",
            "工单号",
            "受理编号",
            "诉求编号",
            "登记编号",
            "来信编号",
            "件号",
            "流水号",
            "受理单号",
            "案件编号",
            "no",
            "number",
        ],
    ),
    (
        Kind::Title,
        &[
            "标题",
            "诉求标题",
            "信访标题",
            "工单标题",
            "留言标题",
            "来信标题",
            "留言主题",
            "主题",
            "事项名称",
            "title",
            "subject",
        ],
    ),
    (
        Kind::Content,
        &[
            "内容",
            "诉求内容",
            "信访内容",
            "工单内容",
            "留言内容",
            "来信内容",
            "留言详情",
            "诉求描述",
            "问题描述",
            "反映内容",
            "事项内容",
            "信访事项",
            "主要内容",
            "内容摘要",
            "详情",
            "正文",
            "content",
            "text",
            "body",
            "description",
        ],
    ),
    (
        Kind::Petitioner,
        &[
            "来电人",
            "信访人",
            "信访人姓名",
            "来信人",
            "来访人",
            "诉求人",
            "反映人",
            "投诉人",
            "留言人",
            "留言用户",
            "联系人",
            "姓名",
            "user",
            "name",
            "petitioner",
        ],
    ),
    (
        Kind::Time,
        &[
            "来电时间",
            "登记时间",
            "信访时间",
            "信访日期",
            "来信时间",
            "来信日期",
            "留言时间",
            "受理时间",
            "诉求时间",
            "登记日期",
            "受理日期",
            "提交时间",
            "时间",
            "日期",
            "time",
            "date",
        ],
    ),
];

/// What each column of `header` is taken for, of the `fields` on offer: what is called like one of them is that; else the first column
/// whose name is usual for what a field of `settings` is; the others keep their own names. No two become the same.
pub fn guess(header: &[String], settings: &Settings, fields: &[String]) -> Vec<Target> {
    let mut targets: Vec<Target> = header.iter().map(|name| own(name, header)).collect();
    let mut taken = vec![false; header.len()];
    for (at, name) in header.iter().enumerate() {
        let same = fields.iter().find(|field| plain(field) == plain(name) && !has(&targets, field));
        if let Some(field) = same {
            (targets[at], taken[at]) = (Target::Field(field.clone()), true);
        }
    }
    // What is called just so is what the service itself calls so.
    let id = header.iter().position(|name| name == "id" && has_once(name, header));
    if let Some(at) = id {
        (targets[at], taken[at]) = (Target::Id, true);
    }
    for (kind, names) in USUAL.into_iter().filter(|(kind, _)| id.is_none() || *kind != Kind::Id) {
        let target = match kind {
            Kind::Id => Some(Target::Id),
            kind => field_of(kind, settings, fields).filter(|field| !has(&targets, field)).map(Target::Field),
        };
        // In the order of the names: the first is the one that says most.
        let mut columns = names.iter().filter_map(|usual| header.iter().position(|name| plain(name) == *usual));
        if let (Some(target), Some(at)) = (target, columns.find(|at| !taken[*at])) {
            (targets[at], taken[at]) = (target, true);
        }
    }
    targets
}

fn has(targets: &[Target], field: &str) -> bool {
    targets.iter().any(|target| matches!(target, Target::Field(taken) if taken == field))
}

/// A column keeps its name where that can be the name of a field and is no other column's.
fn own(name: &str, header: &[String]) -> Target {
    if name.is_empty() || name == "id" || name.contains('\0') || !has_once(name, header) {
        Target::Unused
    } else {
        Target::Own
    }
}

fn has_once(name: &str, header: &[String]) -> bool {
    header.iter().filter(|other| *other == name).count() == 1
}

/// The field on offer that takes what is of this kind.
fn field_of(kind: Kind, settings: &Settings, fields: &[String]) -> Option<String> {
    let takes = |role: Role, is_title: bool| match kind {
        Kind::Id => false,
        Kind::Title => is_title && matches!(role, Role::Text | Role::Whole),
        Kind::Content => role == Role::Text && !is_title,
        Kind::Petitioner => role == Role::Identity,
        Kind::Time => role == Role::Time,
    };
    let mut named = settings.fields.iter().zip(settings.titles());
    let found = named.find(|(field, is_title)| takes(field.role, *is_title) && fields.contains(&field.name));
    found.map(|(field, _)| field.name.clone())
}

/// A name without what is written differently: spaces, capitals, what stands in brackets behind it.
fn plain(name: &str) -> String {
    let name = name.split(['(', '（', '[', '【']).next().unwrap_or_default();
    name.chars().filter(|sign| !sign.is_whitespace() && !"*:：".contains(*sign)).flat_map(char::to_lowercase).collect()
}
