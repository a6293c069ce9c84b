//! Chinese for the errors of a command line that cannot be parsed.

use clap::Error;
use clap::error::{ContextKind, ContextValue, ErrorKind};

use crate::chinese;

/// Returns the message for an error of the parser, in Chinese; `None` for help and version, which are not errors.
pub fn in_chinese(error: &Error) -> Option<String> {
    let argument = context(error, ContextKind::InvalidArg);
    let value = context(error, ContextKind::InvalidValue);
    let mut text = match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            return None;
        }
        ErrorKind::InvalidValue if value.is_empty() => format!("{argument} 缺少值"),
        ErrorKind::InvalidValue | ErrorKind::ValueValidation => invalid_value(error, &argument, &value),
        ErrorKind::UnknownArgument => format!("没有参数 {argument}"),
        ErrorKind::InvalidSubcommand => format!("没有命令 {}", context(error, ContextKind::InvalidSubcommand)),
        ErrorKind::NoEquals => format!("{argument} 的值要写在等号之后"),
        ErrorKind::TooManyValues => format!("{argument} 的值 {value} 多余"),
        ErrorKind::TooFewValues | ErrorKind::WrongNumberOfValues => format!("{argument} 的值的个数不对"),
        ErrorKind::ArgumentConflict => format!("{argument} 不能与 {} 同时使用", context(error, ContextKind::PriorArg)),
        ErrorKind::MissingRequiredArgument => format!("缺少必需的参数：{argument}"),
        ErrorKind::MissingSubcommand => "缺少命令".to_owned(),
        ErrorKind::InvalidUtf8 => "参数不是有效的 UTF-8".to_owned(),
        _ => error.to_string(),
    };
    let similar = [ContextKind::SuggestedArg, ContextKind::SuggestedValue, ContextKind::SuggestedSubcommand];
    if let Some(similar) = similar.into_iter().find_map(|kind| error.get(kind)) {
        text += &format!("；是否想写 {}？", shown(similar));
    }
    let valid = [ContextKind::ValidValue, ContextKind::ValidSubcommand].into_iter().find_map(|kind| error.get(kind));
    let valid = valid.filter(|_| error.get(ContextKind::SuggestedValue).is_none()).map(shown);
    if let Some(valid) = valid.filter(|valid| !valid.is_empty()) {
        text += &format!("；可选值：{valid}");
    }
    Some(text)
}

fn context(error: &Error, kind: ContextKind) -> String {
    error.get(kind).map(shown).unwrap_or_default()
}

fn invalid_value(error: &Error, argument: &str, value: &str) -> String {
    let reason = std::error::Error::source(error).map(|cause| cause.to_string()).unwrap_or_default();
    let reason = chinese(&reason).map_or(reason.clone(), std::borrow::Cow::into_owned);
    match reason.as_str() {
        "" => format!("{argument} 的值 {value:?} 无效"),
        reason => format!("{argument} 的值 {value:?} 无效：{reason}"),
    }
}

fn shown(value: &ContextValue) -> String {
    match value {
        ContextValue::Strings(values) => values.join(", "),
        other => other.to_string(),
    }
}
