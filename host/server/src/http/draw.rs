//! Which arm of an experiment serves a request.
//!
//! A request that names a route with settings of its own (`ROUTE@threshold=0.6`) asks for one behaviour in particular: it is
//! served by the control with these settings and not counted, as an arm may not know them.

use std::borrow::Cow;
use std::sync::Arc;

use axum::http::HeaderMap;
use engine::Chat;
use experiment::definition::Sticky;
use sha2::{Digest, Sha256};

use super::parse::{Prompt, Wanted};
use crate::access::Caller;
use crate::experiments::Assigned;
use crate::runtime::{Catalog, Selected};

/// What of a request may keep its arm.
pub(super) struct Asked<'a> {
    pub(super) caller: &'a Caller,
    pub(super) headers: &'a HeaderMap,
    pub(super) wanted: &'a Wanted,
    /// The number in the answer's id.
    pub(super) id: u64,
}

/// Draws the arm of a request, whose route it then is; none where nobody experiments on the route, which takes one look-up.
pub(super) fn draw(catalog: &Catalog, asked: &Asked<'_>, selected: &mut Selected) -> Option<Assigned> {
    let split = catalog.split(&selected.route.name)?;
    let key = if selected.overrides.is_empty() { asked.key(split.sticky()) } else { None };
    let parts = key.as_ref().map(|key| [key.tenant.as_slice(), key.rest.as_slice()]);
    let assignment = split.assigner.assign(parts.as_ref().map(|parts| parts.as_slice()));
    let assigned = Assigned {
        split: Arc::clone(split),
        arm: assignment.arm,
        unit: assignment.unit,
        shadows: assignment.shadows,
    };
    selected.route = Arc::clone(&split.arms[assigned.arm].route);
    Some(assigned)
}

/// What keeps its arm: two tenants never share one.
struct Key {
    tenant: Vec<u8>,
    rest: Vec<u8>,
}

impl Asked<'_> {
    /// None where the request does not have what its arm is kept by.
    fn key(&self, sticky: &Sticky) -> Option<Key> {
        let tenant = self.caller.lasting_name();
        let rest = match sticky {
            Sticky::Request => self.id.to_be_bytes().to_vec(),
            Sticky::Tenant => {
                // All who send no key are not one tenant.
                return tenant.map(|tenant| Key { tenant, rest: Vec::new() });
            }
            Sticky::User => self.wanted.user.as_ref()?.clone().into_bytes(),
            Sticky::Header(name) => self.headers.get(name)?.as_bytes().to_vec(),
            Sticky::Conversation => match self.wanted.prompts.first()? {
                Prompt::Chat(chat) => beginning(chat)?.to_vec(),
                Prompt::Text(_) | Prompt::Tokens(_) => return None,
            },
        };
        Some(Key { tenant: tenant.unwrap_or_default(), rest })
    }
}

/// A digest of a chat up to its first message of a user: what follows is added to, not changed.
fn beginning(chat: &Chat) -> Option<[u8; 32]> {
    let first = chat.messages.iter().position(|message| message["role"] == "user")?;
    let mut digest = Sha256::new();
    for message in &chat.messages[..=first] {
        for part in [&message["role"], &message["content"]] {
            // A text as it is, and a list of parts as its JSON.
            let part = part.as_str().map_or_else(|| Cow::Owned(part.to_string()), Cow::Borrowed);
            digest.update((part.len() as u64).to_be_bytes());
            digest.update(&*part);
        }
    }
    Some(digest.finalize().into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(role: &str, content: &str) -> serde_json::Value {
        serde_json::json!({"role": role, "content": content})
    }

    fn beginning(messages: &[serde_json::Value]) -> Option<[u8; 32]> {
        super::beginning(&Chat { messages: messages.to_vec(), tools: Vec::new() })
    }

    #[test]
    fn a_chat_that_goes_on_has_the_same_beginning() {
        let begun = vec![message("system", "be brief"), message("user", "hello")];
        let mut later = begun.clone();
        later.extend([message("assistant", "hi"), message("user", "and now?")]);
        assert_eq!(beginning(&begun), beginning(&later));
        assert_ne!(beginning(&begun), beginning(&begun[1..]));
        assert_eq!(beginning(&begun[..1]), None);
    }
}
