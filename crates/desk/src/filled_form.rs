//! The values of forms that a page shows again.

/// Defines a structure with the values of the fields of a form. The name of each member is the name of the field.
macro_rules! filled_form {
    ($(#[$meta:meta])* $type:ident { $($field:ident),+ $(,)? }) => {
        $(#[$meta])*
        #[derive(Clone, Debug, Default)]
        struct $type {
            $($field: String,)+
            /// The place at which a part of a list begins; empty for the first part.
            cursor: String,
        }

        impl $type {
            fn of(form: &FormFields) -> Self {
                Self {
                    $($field: form.owned(stringify!($field)),)+
                    cursor: form.owned("cursor"),
                }
            }

            /// Returns the path with the values and `cursor` as its query. `path` is a part of the collection.
            fn href(&self, collection: &CollectionName, path: &str, cursor: &str) -> String {
                let parameters = [$((stringify!($field), self.$field.as_str()),)+ ("cursor", cursor)];
                with_query(&page::below(collection, path), &parameters)
            }
        }
    };
}

pub(crate) use filled_form;
