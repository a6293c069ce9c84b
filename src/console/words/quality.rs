//! The texts of the page about quality, in both languages.

/// What people decided against what was found.
pub struct QualityWords {
    /// The heading, and the name of the section.
    pub title: &'static str,
}

pub(super) const EN: QualityWords = QualityWords { title: "Quality" };

pub(super) const ZH: QualityWords = QualityWords { title: "质量" };
