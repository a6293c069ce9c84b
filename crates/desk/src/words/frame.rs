//! The texts around the content of every page, of the sign-in page and of problems.

use doppel_core::error_code::ErrorCode;

use super::table::words;

words! {
    /// The texts around the content of every page.
    pub struct FrameWords {
        product: "doppel 筛重台", "doppel desk";
        /// Link to the content, for screen readers.
        skip: "跳到正文", "Skip to content";
        languages: "语言", "Language";
        sections: "功能", "Sections";
        collections: "全部数据集", "All collections";
        /// Label of the name of the visitor's key.
        signed_in_as: "登录密钥：", "Key:";
        /// Label of the name of the visitor, if they signed in with an account.
        person: "登录人：", "Signed in as";
        open_to_all: "未设密钥，本机可用", "No keys: open on this machine";
        sign_out: "退出", "Sign out";
        keyboard: "键盘操作", "Keyboard";
        key_help: "显示本说明", "show this help";
        just_done: "刚才的操作", "What was just done";
        signed_out: "已退出登录。", "You are signed out.";
        undo: "撤销", "Undo";
        api_reference: "接口文档", "API reference";
        next_page: "下一页", "Next page";
        first_page: "回到第一页", "Back to the first page";
    }
}

words! {
    /// The texts of the sign-in page.
    pub struct SignInWords {
        title: "登录", "Sign in";
        name: "账号", "Account";
        password: "密码", "Password";
        account_hint: "账号由系统管理员建立。密码连续输错十次后需要等待。",
            "Your administrator creates your account. After ten wrong passwords you have to wait.";
        with_provider: "用单位统一账号登录", "Sign in with the account of your office";
        /// Summary of the folded form for a key.
        with_key: "用密钥登录", "Sign in with a key";
        wrong_password: "账号或密码不正确，或账号已停用。", "The name or the password is wrong, or the account is disabled.";
        key: "密钥", "Key";
        hint: "与接口使用同一把密钥，形如 dpl_名称_…；没有密钥请向系统管理员索取。",
            "The key that you use for the API, dpl_name_…; your administrator gives you one.";
        button: "登录", "Sign in";
        wrong: "密钥不正确。", "This is not a valid key.";
        /// The reason why the visitor must sign in.
        ended: "请先登录；长时间未操作会自动退出。", "Please sign in; after a while without use you are signed out.";
    }
}

words! {
    /// The texts of problems. Problems with the same remedy have the same text.
    pub struct ProblemWords {
        reference: "请求编号", "Request";
        details: "详细说明", "Details";
        home: "回到首页", "To the start page";
        unreadable: "请求无法读取。", "The request cannot be read.";
        invalid: "填写的内容有误，请改正后重试。", "Something in the form is not right; please correct it and try again.";
        missing_scope: "当前密钥没有执行此操作的权限。", "Your key does not allow this.";
        form_outdated: "页面已过期。请返回上一页，刷新后重试；刚才的操作没有执行。",
            "This page is out of date. Go back, reload it and try again; nothing was done.";
        foreign: "请求来自其他网站或其他地址，已拒绝。", "Another site or address asked for this; it was refused.";
        unknown_page: "没有这个页面。", "There is no such page.";
        unknown_collection: "没有这个数据集。", "There is no such collection.";
        unknown_record: "没有这件信访件，可能已被删除。", "There is no such record; it may have been deleted.";
        missing_role: "您的角色没有这项权限；如需使用，请联系系统管理员。",
            "Your role does not include this. Ask your administrator if you need it.";
        sign_in_refused: "不能用这个单位账号登录，请联系系统管理员。",
            "You cannot sign in with this account of your office. Ask your administrator.";
        sign_in_outdated: "这次登录已过期，请重新登录。", "This sign-in is out of date. Begin it again.";
        name_taken: "这个名称已被账号或密钥使用，请换一个。", "An account or a key has this name. Choose another name.";
        account_changed: "这个账号刚被他人修改过，您的修改没有保存。请核对下面的当前内容后重做。",
            "Somebody else changed this account meanwhile, and your change is not stored. Check the present state below, and repeat it.";
        unknown_account: "没有这个账号。", "There is no such account.";
        conflict: "当前状态下不能执行此操作。", "This is not possible in the current state.";
        search_disabled: "检索功能未启用。", "Search is turned off.";
        ungrouped: "此件不在任何一组中。", "This record is in no group.";
        text_not_kept: "本数据集不保存信访件正文，只能显示编号、时间和判定结果。",
            "This collection keeps no text of its records; only ids, times and verdicts can be shown.";
        group_too_large: "这一组件数过多，不能整组认定；请先断开，或逐件认定。",
            "This group is too large to be decided in one step. Cut it first, or decide pair by pair.";
        id_taken: "这个编号已有另一件。请返回上一页，换一个编号，或不填；没有登记。",
            "Another record has this id. Go back and give this one an id of its own, or none; nothing was stored.";
        nothing_to_undo: "这次操作已经撤销过，或时间过久，不能整体撤销；请逐件撤销认定。",
            "This was undone before, or it is too old to be undone in one step. Take the decisions back one by one.";
        /// The text for the code of a problem with an uploaded file.
        file(code: ErrorCode) -> &'static str: match code {
            ErrorCode::FileTooLarge => "文件太大（最大 64 MB，工作簿解压后最大 192 MB）。请分成几个文件，或者请管理员导入。",
                "The file is too large (64 MB at most, 192 MB for an unpacked workbook). Divide it, or ask an administrator to import it.";
            ErrorCode::FileMissing => "没有选择文件，或者文件是空的。请选择文件后再上传。",
                "No file was chosen, or it is empty. Choose one and upload it.";
            ErrorCode::FileEmpty => "文件里没有数据。第一行须是列名，下面须有内容。",
                "The file holds no data. Its first row names the columns, rows follow.";
            ErrorCode::FileColumns => "列太多（最多 512 列）。请删去不用的列。",
                "Too many columns (512 at most). Remove those that are not used.";
            ErrorCode::FileOld => "这是旧式工作簿（.xls）或加了密码的工作簿。请在 Excel 中另存为不带密码的 .xlsx。",
                "An old workbook (.xls), or one with a password. Save it in Excel as .xlsx without a password.";
            ErrorCode::FileUnknownKind => "认不出这种文件。请交 Excel 工作簿（.xlsx）或 CSV。",
                "This kind of file is not known. Give an Excel workbook (.xlsx) or CSV.";
            ErrorCode::FileDamaged => "工作簿已损坏，读不出来。请在 Excel 中打开并重新保存。",
                "The workbook is damaged. Open it in Excel and save it again.";
            ErrorCode::FileOverLimit =>
                "工作簿里的文字、单元格、工作表或文件太多，或者单元格太长。请只把有信件的工作表另存为 CSV，或者分成几个文件。",
                "The workbook has too many texts, cells, sheets or parts, or too long a cell. Save the sheet with the letters as CSV, or \
                 divide it.";
            ErrorCode::FileBusy => "正在处理的文件太多。请过一分钟再试。", "Too many files are being processed. Try again in a minute.";
            ErrorCode::FileNoSheet => "工作簿里没有这张工作表。请返回上一页重新选择。",
                "The workbook has no such sheet. Go back and choose again.";
            ErrorCode::FileBegun => "这个文件已经开始处理，不能改读其他工作表。请重新上传。",
                "Processing of this file has begun, so no other sheet can be read. Upload it again.";
            ErrorCode::FileUnfinished => "这个文件还没有结果。", "There is no result of this file yet.";
            _ => "没有这个文件，或者已过保留时间。请重新上传。", "There is no such file, or it has expired. Upload it again.";
        }
        search_opening: "检索索引正在打开，请稍后再试。", "The search index is being opened; try again in a moment.";
        too_often: "操作过于频繁，请稍后再试。", "Too many requests; please wait a moment.";
        unavailable: "系统暂时无法处理，请稍后再试。", "The service cannot do this right now; please try again in a moment.";
        disk_full: "磁盘空间不足，暂时不能写入；查询不受影响。", "The disk is full: nothing can be stored; looking things up goes on.";
        internal: "系统出错。请把请求编号告诉管理员。", "The service failed. Please tell your administrator the request number.";
    }
}
