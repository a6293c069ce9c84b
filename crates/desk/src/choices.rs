//! Enumerations of choices that a page offers.

/// Defines an enumeration. Each variant has a name in queries and a text on pages, from a table of words.
macro_rules! choices {
    ($(#[$meta:meta])* $vis:vis enum $type:ident from $words:ident: $table:ty {
        $($(#[$note:meta])* $variant:ident = $value:literal, $text:expr;)+
    }) => {
        $(#[$meta])*
        $vis enum $type {
            $($(#[$note])* $variant,)+
        }

        impl $type {
            /// All choices, in the order of the page.
            $vis const ALL: [Self; [$($value),+].len()] = [$(Self::$variant),+];

            /// Returns the name of the choice in a query.
            $vis fn value(self) -> &'static str {
                match self {
                    $(Self::$variant => $value,)+
                }
            }

            /// All choices with their names in a query.
            #[allow(dead_code, reason = "`DeskSection` does not use it")]
            $vis const NAMES: [(Self, &'static str); [$($value),+].len()] = [$((Self::$variant, $value)),+];

            /// Returns the text of the choice on a page.
            $vis fn name(self, $words: &$table) -> &'static str {
                match self {
                    $(Self::$variant => $text,)+
                }
            }
        }
    };
}

pub(crate) use choices;
