//! The texts of the pages about accounts and sessions.

use doppel_config::auth::PersonRole;

use super::table::words;

words! {
    /// The texts of the pages about accounts and sessions.
    pub struct PeopleWords {
        title: "人员账号", "People";
        none: "还没有人员账号。", "Nobody has an account yet.";
        no_key:
            "配置中没有密钥，本机上的任何人都可以使用，不需要账号。要建立账号，请先在配置中加入一把有 admin 权限的密钥（doppel config new-key）。",
            "The configuration has no key, so that everyone on this machine may do everything and needs no account. To make accounts, \
             put a key with the scope admin into the configuration (doppel config new-key).";
        name: "账号", "Account";
        name_hint: "登录时使用，建立后不能更改：1 至 64 个字符，只用 a-z、0-9 和“-”。",
            "The name for signing in, which cannot be changed later: 1 to 64 of a-z, 0-9 and \"-\".";
        display_name: "姓名", "Name";
        role: "角色", "Role";
        role_of(role: PersonRole) -> &'static str: match role {
            PersonRole::Viewer => "查阅人员", "Viewer";
            PersonRole::Clerk => "经办人", "Clerk";
            PersonRole::Lead => "审核人", "Lead";
            PersonRole::Administrator => "系统管理员", "Administrator";
        }
        role_means(role: PersonRole) -> &'static str: match role {
            PersonRole::Viewer => "只能查看和检索", "reads and searches";
            PersonRole::Clerk => "另可逐件认定、登记、填写办理情况", "also decides, registers, and writes steps of the handling";
            PersonRole::Lead => "另可批量认定、并单、拆分重复件组和更正事件", "also decides about batches, groups and events";
            PersonRole::Administrator => "全部权限，包括数据集、索引和人员账号",
                "may do everything, including collections, indexes and accounts";
        }
        collections: "可用数据集", "Collections";
        collections_hint: "用逗号分隔；不填则可用全部数据集。", "Separate them by commas. Leave this empty for all collections.";
        all_collections: "全部", "all";
        state: "状态", "State";
        enabled: "正常", "Active";
        disabled: "已停用", "Disabled";
        disable: "停用此账号（其登录立即结束，不能再登录）", "Disable this account (its sessions end, and it cannot sign in)";
        new: "新建账号", "New account";
        new_hint: "系统自动生成初始密码，只显示一次；请本人登录后修改。",
            "A random password is shown once. The person changes it after signing in.";
        create: "建立", "Create";
        change: "更改账号", "Change the account";
        change_hint: "更改角色、可用数据集或停用账号，会立即结束此人的登录。",
            "The person is signed out if the role or the collections change or the account is disabled.";
        save: "保存", "Save";
        own: "这是您自己的账号。角色、停用和删除须由另一位管理员操作。",
            "This is your own account. Another administrator can change its role, disable it or remove it.";
        reset: "重置密码", "Reset the password";
        reset_hint: "生成新密码，只显示一次；此人的登录立即结束。", "A new random password is shown once. The person is signed out.";
        reset_button: "重置密码", "Reset the password";
        remove: "删除账号", "Remove the account";
        remove_hint: "已作的认定和记录仍保留其姓名。", "Decisions and notes keep the name of the person.";
        remove_button: "删除账号", "Remove the account";
        password_of(name: &str): "账号 {name} 的密码", "Password of {name}";
        password_once: "只显示这一次，请当面或通过可靠渠道交给本人；本人登录后请在“我的账号”中修改。",
            "It is shown only now. Hand it to the person directly; they change it on the page \"My account\".";
        back: "回到人员账号", "Back to all accounts";
        me: "我的账号", "My account";
        own_password: "修改密码", "Change the password";
        present: "当前密码", "Present password";
        wanted: "新密码", "New password";
        again: "再次输入新密码", "New password again";
        password_hint(least: usize): "至少 {least} 个字符。修改后，其他浏览器上的登录立即结束。",
            "At least {least} characters. You are signed out in other browsers.";

        // Messages for a form that is refused.
        wrong_password: "当前密码不正确。", "The present password is wrong.";
        not_equal: "两次输入的新密码不一致。", "The two new passwords differ.";
        bad_password: "新密码不符合要求：过短、过长或与账号名称相同。",
            "The new password is too short, too long, or the name of the account.";
        not_own: "不能更改自己的角色、停用或删除自己的账号；请由另一位管理员操作。",
            "You cannot change your own role, and cannot disable or remove your own account. Ask another administrator.";

        sessions: "登录情况", "Sessions";
        sessions_hint: "30 分钟没有操作或登录满 8 小时，登录自动结束。只列出本服务进程上的登录。",
            "A session ends after 30 minutes without use and after 8 hours. The list has the sessions at this instance of the service.";
        who: "登录人", "Who";
        begun: "登录", "Signed in";
        used: "最近操作", "Last used";
        place: "地址和浏览器", "Address and browser";
        this_one: "本次登录", "this session";
        end: "结束", "End";
        /// Label of the button that ends a session, for screen readers, with the name of the key or account.
        end_of(name: &str): "结束 {name} 的这次登录", "End this session of {name}";
        ago: fn(u64) -> String = ago_zh, ago_en;

        // Messages after an action.
        changed: "账号已更改。", "The account is changed.";
        removed: "账号已删除。", "The account is removed.";
        password_changed: "密码已修改。", "The password is changed.";
        ended: "登录已结束。", "The session is ended.";
    }
}

fn ago_zh(minutes: u64) -> String {
    match minutes {
        0 => "刚才".to_owned(),
        1..60 => format!("{minutes} 分钟前"),
        _ => format!("{} 小时前", minutes / 60),
    }
}

fn ago_en(minutes: u64) -> String {
    match minutes {
        0 => "just now".to_owned(),
        1 => "1 minute ago".to_owned(),
        2..60 => format!("{minutes} minutes ago"),
        60..120 => "1 hour ago".to_owned(),
        _ => format!("{} hours ago", minutes / 60),
    }
}
