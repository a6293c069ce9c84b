//! The texts of the pages about accounts and sessions, in all languages.

use doppel_config::auth::PersonRole;

/// The texts of the pages about accounts and sessions.
pub struct PeopleWords {
    /// Heading of the list of accounts.
    pub title: &'static str,
    /// Note that nobody has an account yet.
    pub none: &'static str,
    /// Note that accounts need a key in the configuration.
    pub no_key: &'static str,
    /// Column with the names of accounts.
    pub name: &'static str,
    /// The rule for names of accounts.
    pub name_hint: &'static str,
    /// Label of the shown name of a person.
    pub display_name: &'static str,
    /// Label of the role.
    pub role: &'static str,
    /// The name of a role.
    pub role_of: fn(PersonRole) -> &'static str,
    /// The rights of a role.
    pub role_means: fn(PersonRole) -> &'static str,
    /// Label of the collections of an account.
    pub collections: &'static str,
    /// The rule for collections.
    pub collections_hint: &'static str,
    /// Text for an account that may use all collections.
    pub all_collections: &'static str,
    /// Label of the state of an account.
    pub state: &'static str,
    /// State of an account that can sign in.
    pub enabled: &'static str,
    /// State of an account that cannot sign in.
    pub disabled: &'static str,
    /// Label of the choice that disables an account.
    pub disable: &'static str,
    /// Heading of the form for a new account.
    pub new: &'static str,
    /// Explanation of the first password.
    pub new_hint: &'static str,
    /// Button that creates an account.
    pub create: &'static str,
    /// Heading of the form that changes an account.
    pub change: &'static str,
    /// Note that a change ends the sessions of the person.
    pub change_hint: &'static str,
    /// Button that stores a change.
    pub save: &'static str,
    /// Note on the page of the administrator's own account.
    pub own: &'static str,
    /// Heading of the form for a new password.
    pub reset: &'static str,
    /// Explanation of a new password.
    pub reset_hint: &'static str,
    /// Button that makes a new password.
    pub reset_button: &'static str,
    /// Heading of the form that removes an account.
    pub remove: &'static str,
    /// Explanation of the removal.
    pub remove_hint: &'static str,
    /// Button that removes an account.
    pub remove_button: &'static str,
    /// Heading of a password that is shown once, for the account with this name.
    pub password_of: fn(&str) -> String,
    /// Explanation of a password that is shown once.
    pub password_once: &'static str,
    /// Link back to the list.
    pub back: &'static str,
    /// Heading of a person's own page.
    pub me: &'static str,
    /// Heading of the form for the own password.
    pub own_password: &'static str,
    /// Label of the present password.
    pub present: &'static str,
    /// Label of the new password.
    pub wanted: &'static str,
    /// Label of the repeated new password.
    pub again: &'static str,
    /// The rule for passwords.
    pub password_hint: fn(usize) -> String,
    /// Message that the present password is wrong.
    pub wrong_password: &'static str,
    /// Message that the two new passwords differ.
    pub not_equal: &'static str,
    /// Message for a password that breaks the rule.
    pub bad_password: &'static str,
    /// Message that an administrator cannot change the rights of the own account.
    pub not_own: &'static str,
    /// Heading of the list of sessions.
    pub sessions: &'static str,
    /// Explanation of the list: this instance, and the ends of sessions.
    pub sessions_hint: &'static str,
    /// Column with the names of keys and accounts.
    pub who: &'static str,
    /// Column with the beginnings of sessions.
    pub begun: &'static str,
    /// Column with the times of last requests.
    pub used: &'static str,
    /// Column with addresses and browsers.
    pub place: &'static str,
    /// Mark of the session of this browser.
    pub this_one: &'static str,
    /// Button that ends a session.
    pub end: &'static str,
    /// Label of that button for screen readers, with the name of the key or account.
    pub end_of: fn(&str) -> String,
    /// A duration in minutes before now.
    pub ago: fn(u64) -> String,
    /// Message: an account was changed.
    pub changed: &'static str,
    /// Message: an account was removed.
    pub removed: &'static str,
    /// Message: the own password was changed.
    pub password_changed: &'static str,
    /// Message: a session was ended.
    pub ended: &'static str,
}

pub(super) const ZH: PeopleWords = PeopleWords {
    title: "人员账号",
    none: "还没有人员账号。",
    no_key: "配置中没有密钥，本机上的任何人都可以使用，不需要账号。要建立账号，请先在配置中加入一把有 admin 权限的密钥（doppel config new-key）。",
    name: "账号",
    name_hint: "登录时使用，建立后不能更改：1 至 64 个字符，只用 a-z、0-9 和“-”。",
    display_name: "姓名",
    role: "角色",
    role_of: |role| match role {
        PersonRole::Viewer => "查阅人员",
        PersonRole::Clerk => "经办人",
        PersonRole::Lead => "审核人",
        PersonRole::Administrator => "系统管理员",
    },
    role_means: |role| match role {
        PersonRole::Viewer => "只能查看和检索",
        PersonRole::Clerk => "另可逐件认定、登记、填写办理情况",
        PersonRole::Lead => "另可批量认定、并单、拆分重复件组和更正事件",
        PersonRole::Administrator => "全部权限，包括数据集、索引和人员账号",
    },
    collections: "可用数据集",
    collections_hint: "用逗号分隔；不填则可用全部数据集。",
    all_collections: "全部",
    state: "状态",
    enabled: "正常",
    disabled: "已停用",
    disable: "停用此账号（其登录立即结束，不能再登录）",
    new: "新建账号",
    new_hint: "系统自动生成初始密码，只显示一次；请本人登录后修改。",
    create: "建立",
    change: "更改账号",
    change_hint: "更改角色、可用数据集或停用账号，会立即结束此人的登录。",
    save: "保存",
    own: "这是您自己的账号。角色、停用和删除须由另一位管理员操作。",
    reset: "重置密码",
    reset_hint: "生成新密码，只显示一次；此人的登录立即结束。",
    reset_button: "重置密码",
    remove: "删除账号",
    remove_hint: "已作的认定和记录仍保留其姓名。",
    remove_button: "删除账号",
    password_of: |name| format!("账号 {name} 的密码"),
    password_once: "只显示这一次，请当面或通过可靠渠道交给本人；本人登录后请在“我的账号”中修改。",
    back: "回到人员账号",
    me: "我的账号",
    own_password: "修改密码",
    present: "当前密码",
    wanted: "新密码",
    again: "再次输入新密码",
    password_hint: |least| format!("至少 {least} 个字符。修改后，其他浏览器上的登录立即结束。"),
    wrong_password: "当前密码不正确。",
    not_equal: "两次输入的新密码不一致。",
    bad_password: "新密码不符合要求：过短、过长或与账号名称相同。",
    not_own: "不能更改自己的角色、停用或删除自己的账号；请由另一位管理员操作。",
    sessions: "登录情况",
    sessions_hint: "30 分钟没有操作或登录满 8 小时，登录自动结束。只列出本服务进程上的登录。",
    who: "登录人",
    begun: "登录",
    used: "最近操作",
    place: "地址和浏览器",
    this_one: "本次登录",
    end: "结束",
    end_of: |name| format!("结束 {name} 的这次登录"),
    ago: |minutes| match minutes {
        0 => "刚才".to_owned(),
        1..60 => format!("{minutes} 分钟前"),
        _ => format!("{} 小时前", minutes / 60),
    },
    changed: "账号已更改。",
    removed: "账号已删除。",
    password_changed: "密码已修改。",
    ended: "登录已结束。",
};

pub(super) const EN: PeopleWords = PeopleWords {
    title: "People",
    none: "Nobody has an account yet.",
    no_key: "The configuration has no key, so that everyone on this machine may do everything and needs no account. To make accounts, put a key with the scope admin into the configuration (doppel config new-key).",
    name: "Account",
    name_hint: "The name for signing in, which cannot be changed later: 1 to 64 of a-z, 0-9 and \"-\".",
    display_name: "Name",
    role: "PersonRole",
    role_of: |role| match role {
        PersonRole::Viewer => "Viewer",
        PersonRole::Clerk => "Clerk",
        PersonRole::Lead => "Lead",
        PersonRole::Administrator => "Administrator",
    },
    role_means: |role| match role {
        PersonRole::Viewer => "reads and searches",
        PersonRole::Clerk => "also decides, registers, and writes steps of the handling",
        PersonRole::Lead => "also decides about batches, groups and events",
        PersonRole::Administrator => "may do everything, including collections, indexes and accounts",
    },
    collections: "Collections",
    collections_hint: "Separate them by commas. Leave this empty for all collections.",
    all_collections: "all",
    state: "State",
    enabled: "Active",
    disabled: "Disabled",
    disable: "Disable this account (its sessions end, and it cannot sign in)",
    new: "New account",
    new_hint: "A random password is shown once. The person changes it after signing in.",
    create: "Create",
    change: "Change the account",
    change_hint: "The person is signed out if the role or the collections change or the account is disabled.",
    save: "Save",
    own: "This is your own account. Another administrator can change its role, disable it or remove it.",
    reset: "Reset the password",
    reset_hint: "A new random password is shown once. The person is signed out.",
    reset_button: "Reset the password",
    remove: "Remove the account",
    remove_hint: "Decisions and notes keep the name of the person.",
    remove_button: "Remove the account",
    password_of: |name| format!("Password of {name}"),
    password_once: "It is shown only now. Hand it to the person directly; they change it on the page \"My account\".",
    back: "Back to all accounts",
    me: "My account",
    own_password: "Change the password",
    present: "Present password",
    wanted: "New password",
    again: "New password again",
    password_hint: |least| format!("At least {least} characters. You are signed out in other browsers."),
    wrong_password: "The present password is wrong.",
    not_equal: "The two new passwords differ.",
    bad_password: "The new password is too short, too long, or the name of the account.",
    not_own: "You cannot change your own role, and cannot disable or remove your own account. Ask another administrator.",
    sessions: "Sessions",
    sessions_hint: "A session ends after 30 minutes without use and after 8 hours. The list has the sessions at this instance of the service.",
    who: "Who",
    begun: "Signed in",
    used: "Last used",
    place: "Address and browser",
    this_one: "this session",
    end: "End",
    end_of: |name| format!("End this session of {name}"),
    ago: |minutes| match minutes {
        0 => "just now".to_owned(),
        1 => "1 minute ago".to_owned(),
        2..60 => format!("{minutes} minutes ago"),
        60..120 => "1 hour ago".to_owned(),
        _ => format!("{} hours ago", minutes / 60),
    },
    changed: "The account is changed.",
    removed: "The account is removed.",
    password_changed: "The password is changed.",
    ended: "The session is ended.",
};
