//! The macro for tables of texts.

/// Declares the struct with the texts of a page, and its constants `ZH` and `EN`. A row has the name of a text, the text in Chinese and the
/// text in English. A text that is missing in a language is an error at compile time. A row has one of these forms:
///
/// * `name: "…", "…";` is a text.
/// * `name(count: usize): "… {count} …", "… {count} …";` is a text with data: a function that returns a `String`.
/// * `name(kind: Kind) -> String: match kind { Kind::Wide(rows) => "… {rows} …", "… {rows} …"; … }` has a text with data per value.
/// * `name(kind: Kind) -> Type: match kind { Kind::Wide => …, …; … }` has an expression per value.
/// * `name: Type = …, …;` is a value of any type.
/// * `name: OtherWords;` is another table.
///
/// The first rule passes the rows to the other rules. Each of the other rules removes one row and adds the field of the row and its two values to
/// the lists in braces, until no row is left.
macro_rules! words {
    ($(#[$doc:meta])* pub struct $table:ident { $($rows:tt)* }) => {
        words!(@ [$(#[$doc])* $table] {} {} {} $($rows)*);
    };
    (@ $table:tt { $($fields:tt)* } { $($zh:tt)* } { $($en:tt)* }
        $(#[$note:meta])* $name:ident: $chinese:literal, $english:literal; $($rows:tt)*) => {
        words!(@ $table
            { $($fields)* $(#[$note])* pub $name: &'static str, }
            { $($zh)* $name: $chinese, }
            { $($en)* $name: $english, }
            $($rows)*);
    };
    (@ $table:tt { $($fields:tt)* } { $($zh:tt)* } { $($en:tt)* }
        $(#[$note:meta])* $name:ident($($datum:tt: $type:ty),*): $chinese:literal, $english:literal; $($rows:tt)*) => {
        words!(@ $table
            { $($fields)* $(#[$note])* pub $name: fn($($type),*) -> String, }
            { $($zh)* $name: |$($datum),*| format!($chinese), }
            { $($en)* $name: |$($datum),*| format!($english), }
            $($rows)*);
    };
    (@ $table:tt { $($fields:tt)* } { $($zh:tt)* } { $($en:tt)* }
        $(#[$note:meta])* $name:ident($($datum:ident: $type:ty),*) -> String: match $on:tt {
            $($value:pat $(if $condition:expr)? => $chinese:literal, $english:literal;)*
        } $($rows:tt)*) => {
        words!(@ $table
            { $($fields)* $(#[$note])* pub $name: fn($($type),*) -> String, }
            { $($zh)* $name: |$($datum),*| match $on { $($value $(if $condition)? => format!($chinese),)* }, }
            { $($en)* $name: |$($datum),*| match $on { $($value $(if $condition)? => format!($english),)* }, }
            $($rows)*);
    };
    (@ $table:tt { $($fields:tt)* } { $($zh:tt)* } { $($en:tt)* }
        $(#[$note:meta])* $name:ident($($datum:ident: $type:ty),*) -> $output:ty: match $on:tt {
            $($value:pat => $chinese:expr, $english:expr;)*
        } $($rows:tt)*) => {
        words!(@ $table
            { $($fields)* $(#[$note])* pub $name: fn($($type),*) -> $output, }
            { $($zh)* $name: |$($datum),*| match $on { $($value => $chinese,)* }, }
            { $($en)* $name: |$($datum),*| match $on { $($value => $english,)* }, }
            $($rows)*);
    };
    (@ $table:tt { $($fields:tt)* } { $($zh:tt)* } { $($en:tt)* }
        $(#[$note:meta])* $name:ident: $type:ty = $chinese:expr, $english:expr; $($rows:tt)*) => {
        words!(@ $table
            { $($fields)* $(#[$note])* pub $name: $type, }
            { $($zh)* $name: $chinese, }
            { $($en)* $name: $english, }
            $($rows)*);
    };
    (@ $table:tt { $($fields:tt)* } { $($zh:tt)* } { $($en:tt)* }
        $(#[$note:meta])* $name:ident: $other:ident; $($rows:tt)*) => {
        words!(@ $table
            { $($fields)* $(#[$note])* pub $name: $other, }
            { $($zh)* $name: $other::ZH, }
            { $($en)* $name: $other::EN, }
            $($rows)*);
    };
    (@ [$(#[$doc:meta])* $table:ident] { $($fields:tt)* } { $($zh:tt)* } { $($en:tt)* }) => {
        $(#[$doc])*
        pub struct $table { $($fields)* }

        impl $table {
            pub(in crate::words) const ZH: Self = Self { $($zh)* };
            pub(in crate::words) const EN: Self = Self { $($en)* };
        }
    };
}
pub(super) use words;
