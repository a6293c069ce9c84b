//! The codes of all errors, for programs. A code does not change between versions, and a new version may have more of them.

use std::fmt;

use serde::{Serialize, Serializer};

/// Declares the enum of codes with their texts.
macro_rules! error_codes {
    ($($variant:ident = $text:literal,)*) => {
        /// The reason of an error for programs.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum ErrorCode {
            $(#[doc = concat!("`", $text, "`")] $variant,)*
        }

        impl ErrorCode {
            /// All codes, in the order of their texts.
            pub const ALL: &[Self] = &[$(Self::$variant),*];

            /// Returns the code as it is written in answers: in snake case.
            pub fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $text,)*
                }
            }
        }
    };
}

error_codes! {
    AccountChanged = "account_changed",
    AccountExists = "account_exists",
    BodyTimeout = "body_timeout",
    BodyTooLarge = "body_too_large",
    ChangesForgotten = "changes_forgotten",
    CollectionExists = "collection_exists",
    CollectionNotEmpty = "collection_not_empty",
    CommonAlias = "common_alias",
    Conflict = "conflict",
    DeadlineExceeded = "deadline_exceeded",
    DiskFull = "disk_full",
    DuplicateChannel = "duplicate_channel",
    DuplicateKey = "duplicate_key",
    DuplicateName = "duplicate_name",
    EventsNotReady = "events_not_ready",
    ExpectationFailed = "expectation_failed",
    ExpiredKey = "expired_key",
    FileBegun = "file_begun",
    FileBusy = "file_busy",
    FileColumns = "file_columns",
    FileDamaged = "file_damaged",
    FileEmpty = "file_empty",
    FileMissing = "file_missing",
    FileNoSheet = "file_no_sheet",
    FileOld = "file_old",
    FileOverLimit = "file_over_limit",
    FileTooLarge = "file_too_large",
    FileUnfinished = "file_unfinished",
    FileUnknown = "file_unknown",
    FileUnknownKind = "file_unknown_kind",
    ForeignHost = "foreign_host",
    ForeignOrigin = "foreign_origin",
    FormOutdated = "form_outdated",
    GenerationBuilding = "generation_building",
    GenerationChanged = "generation_changed",
    GenerationLive = "generation_live",
    GroupTooLarge = "group_too_large",
    GrowsTooMuch = "grows_too_much",
    HandlingChanged = "handling_changed",
    HasMatchConditions = "has_match_conditions",
    HeadTooLarge = "head_too_large",
    IdMismatch = "id_mismatch",
    IdTaken = "id_taken",
    IdempotencyKeyReused = "idempotency_key_reused",
    IndexFull = "index_full",
    Internal = "internal",
    InvalidCollection = "invalid_collection",
    InvalidCollections = "invalid_collections",
    InvalidCursor = "invalid_cursor",
    InvalidDisplayName = "invalid_display_name",
    InvalidFingerprint = "invalid_fingerprint",
    InvalidGeneration = "invalid_generation",
    InvalidId = "invalid_id",
    InvalidIdempotencyKey = "invalid_idempotency_key",
    InvalidKey = "invalid_key",
    InvalidModel = "invalid_model",
    InvalidName = "invalid_name",
    InvalidParameter = "invalid_parameter",
    InvalidPassword = "invalid_password",
    InvalidRequest = "invalid_request",
    InvalidValue = "invalid_value",
    InvalidWord = "invalid_word",
    KeepConflict = "keep_conflict",
    KeyExists = "key_exists",
    LineTooLarge = "line_too_large",
    MalformedBody = "malformed_body",
    MalformedEncoding = "malformed_encoding",
    MalformedPath = "malformed_path",
    MalformedQuery = "malformed_query",
    MalformedRequest = "malformed_request",
    MethodNotAllowed = "method_not_allowed",
    MissingHost = "missing_host",
    MissingKey = "missing_key",
    MissingMediaType = "missing_media_type",
    MissingParameter = "missing_parameter",
    MissingRole = "missing_role",
    MissingScope = "missing_scope",
    MissingScopes = "missing_scopes",
    NeedsText = "needs_text",
    NestedValue = "nested_value",
    NoAccount = "no_account",
    NoConfiguredKey = "no_configured_key",
    NoContent = "no_content",
    NoContentField = "no_content_field",
    NoEvent = "no_event",
    NoFingerprints = "no_fingerprints",
    NoIdentityField = "no_identity_field",
    NoPassages = "no_passages",
    NoProvider = "no_provider",
    NoSnapshot = "no_snapshot",
    NoVerification = "no_verification",
    NotAcceptable = "not_acceptable",
    NotAnObject = "not_an_object",
    NotCompared = "not_compared",
    NotHere = "not_here",
    NotInEvent = "not_in_event",
    NotInGroup = "not_in_group",
    NotSupported = "not_supported",
    NotThisCollection = "not_this_collection",
    NothingGiven = "nothing_given",
    NothingToUndo = "nothing_to_undo",
    NulCharacter = "nul_character",
    OneOf = "one_of",
    OutOfRange = "out_of_range",
    OutcomeUnknown = "outcome_unknown",
    OutdatedGeneration = "outdated_generation",
    Overloaded = "overloaded",
    OwnAccount = "own_account",
    ProfileConflict = "profile_conflict",
    ProviderUnavailable = "provider_unavailable",
    RateLimited = "rate_limited",
    RejectedPair = "rejected_pair",
    Repeated = "repeated",
    RepeatedHeader = "repeated_header",
    RepeatedParameter = "repeated_parameter",
    RowsTooLarge = "rows_too_large",
    SameRecord = "same_record",
    SearchDisabled = "search_disabled",
    SearchOpening = "search_opening",
    ShuttingDown = "shutting_down",
    SignInOutdated = "sign_in_outdated",
    SignInRefused = "sign_in_refused",
    SnapshotRunning = "snapshot_running",
    SnapshotsOff = "snapshots_off",
    StoreUnavailable = "store_unavailable",
    TaskRunning = "task_running",
    TextNotKept = "text_not_kept",
    TlsRequired = "tls_required",
    TooDeep = "too_deep",
    TooLong = "too_long",
    TooManyAccounts = "too_many_accounts",
    TooManyAttempts = "too_many_attempts",
    TooManyCollections = "too_many_collections",
    TooManyConnections = "too_many_connections",
    TooManyFields = "too_many_fields",
    TooManyForms = "too_many_forms",
    TooManyGenerations = "too_many_generations",
    TooManyKeys = "too_many_keys",
    TooManyLinks = "too_many_links",
    TooManyParts = "too_many_parts",
    TooManyRulings = "too_many_rulings",
    TooManySignIns = "too_many_sign_ins",
    TooManySteps = "too_many_steps",
    TooManyStreams = "too_many_streams",
    TooManyWords = "too_many_words",
    Ungrouped = "ungrouped",
    UnknownAccount = "unknown_account",
    UnknownCollection = "unknown_collection",
    UnknownDecision = "unknown_decision",
    UnknownField = "unknown_field",
    UnknownForm = "unknown_form",
    UnknownGeneration = "unknown_generation",
    UnknownKey = "unknown_key",
    UnknownParameter = "unknown_parameter",
    UnknownRecord = "unknown_record",
    UnknownRoute = "unknown_route",
    UnknownSession = "unknown_session",
    UnknownSource = "unknown_source",
    UnknownTask = "unknown_task",
    UnknownTimeZone = "unknown_time_zone",
    UnreadableTime = "unreadable_time",
    UnsupportedEncoding = "unsupported_encoding",
    UnsupportedMediaType = "unsupported_media_type",
    UnusedMember = "unused_member",
    UriTooLong = "uri_too_long",
    VectorsDisabled = "vectors_disabled",
    WrongType = "wrong_type",
}

impl fmt::Display for ErrorCode {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(self.as_str())
    }
}

impl Serialize for ErrorCode {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

#[cfg(feature = "openapi")]
impl utoipa::PartialSchema for ErrorCode {
    fn schema() -> utoipa::openapi::RefOr<utoipa::openapi::schema::Schema> {
        let texts = Self::ALL.iter().map(|code| code.as_str());
        utoipa::openapi::schema::Object::builder()
            .schema_type(utoipa::openapi::schema::Type::String)
            .description(Some("The reason of an error, for programs. Later versions may add codes."))
            .enum_values(Some(texts))
            .into()
    }
}

#[cfg(feature = "openapi")]
impl utoipa::ToSchema for ErrorCode {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_in_order_and_in_snake_case() {
        let texts: Vec<&str> = ErrorCode::ALL.iter().map(|code| code.as_str()).collect();
        assert!(texts.is_sorted_by(|a, b| a < b));
        let plain = |text: &&str| text.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_');
        assert!(texts.iter().all(plain), "{texts:?}");
    }
}
