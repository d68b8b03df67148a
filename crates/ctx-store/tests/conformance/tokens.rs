//! Tokens: found by their hash until they are removed.

use ctx_core::id::TokenId;
use ctx_core::token::{Scope, Token, digest};
use ulid::Ulid;

use crate::Backend;
use crate::harness::at;

pub(crate) async fn a_token_is_found_by_its_hash_until_it_is_removed(backend: &impl Backend) {
    let (store, other) = (backend.open().await, backend.open().await);
    let token = |n: u128, scope| {
        Token::new(TokenId(Ulid(n)), Some(format!("number {n}")), scope, at(1)).expect("a token")
    };
    let (first, second) = (token(1, Scope::Read), token(2, Scope::Admin));
    store.insert_token(&second, digest("two")).await.expect("kept");
    store.insert_token(&first, digest("one")).await.expect("kept");
    assert_eq!(
        other.tokens().await.expect("tokens"),
        [first.clone(), second.clone()],
        "oldest first"
    );
    assert_eq!(other.token(digest("one")).await.expect("a look"), Some(first.clone()));
    assert_eq!(other.token(digest("On")).await.expect("a look"), None);
    assert!(
        store.insert_token(&token(3, Scope::Read), digest("one")).await.is_err(),
        "a hash belongs to one token"
    );
    assert_eq!(store.delete_token(first.id).await.expect("removed"), Some(first.clone()));
    assert_eq!(store.delete_token(first.id).await.expect("gone"), None);
    assert_eq!(
        other.token(digest("one")).await.expect("a look"),
        None,
        "at once, through every handle"
    );
    assert_eq!(other.tokens().await.expect("tokens"), [second]);
}
