//! Verification: how alike two texts really are, and why.
