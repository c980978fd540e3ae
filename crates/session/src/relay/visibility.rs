//! The visibility of a held response, once it is decided on.

use softland_core::Admission;

/// The part of a held response that is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Visibility {
    /// Every block; calls as they are admitted.
    All,
    /// Visible text only: thinking is signed over a tail that the client never sees.
    Text,
    /// All but calls; of the calls, the answer tool's.
    Landed,
    /// Visible text and the answer tool's call.
    Answer,
    /// Nothing more.
    Nothing,
}

impl Visibility {
    /// True if a call is shown, with what was decided on it.
    pub(crate) fn shows_call(self, admission: Option<&Admission>) -> bool {
        match (self, admission) {
            (Self::All, Some(admission)) => {
                !matches!(admission, Admission::Refused(_) | Admission::ToolRefused(_))
            }
            (Self::All, None) => true,
            (Self::Landed | Self::Answer, Some(admission)) => *admission == Admission::Answer,
            (Self::Landed | Self::Answer | Self::Text | Self::Nothing, _) => false,
        }
    }
}
